# JupyterLab with the notebooks, from requirements.lock.
#
#   docker build -t relevit .                            CPU
#   docker build -t relevit --build-arg DEVICE=cuda .    with CUDA's libraries
#   docker run --rm -p 8888:8888 relevit                 add --gpus all for CUDA
#
# Not tried: it was written without Docker at hand. Tested are the filter of the lock, and that
# what is copied is there.
FROM python:3.12-slim

ARG DEVICE=cpu

RUN useradd --create-home --uid 1000 reader && install --directory --owner=reader /relevit
USER reader
WORKDIR /relevit
ENV PATH=/relevit/.venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1

# Packages first: they stay while only the suite changes. Without CUDA, torch and torchvision both
# come from PyTorch's index for the CPU, and the lock without what belongs to CUDA.
COPY --chown=reader requirements.lock ./
RUN python -m venv .venv && if [ "$DEVICE" = cpu ]; then \
        pip install $(grep -oE '^torch(vision)?==[^ ]+' requirements.lock) \
            --index-url https://download.pytorch.org/whl/cpu && \
        awk '/^[a-z]/ {keep = !/^(torch==|torchvision==|triton==|nvidia-|cuda-)/} keep' \
            requirements.lock > .venv/cpu.lock && \
        pip install --no-deps --require-hashes -r .venv/cpu.lock; \
    else \
        pip install --require-hashes -r requirements.lock; \
    fi

COPY --chown=reader . .
RUN pip install --no-deps --no-build-isolation -e .

EXPOSE 8888
CMD ["jupyter-lab", "--ip=0.0.0.0", "--port=8888", "--no-browser"]
