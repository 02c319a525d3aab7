"""Models of a hub by `hf-hub:`, asked of a server of this machine that speaks as the hub does."""

from __future__ import annotations

import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import huggingface_hub as client
import pytest
import timm
import torch
import transformers as hf
from PIL import Image
from timm.models import save_for_hf

from relevit import explain
from relevit.models import open_model
from relevit_own.cli import main

from .conftest import SMALL, made

COMMIT = "0" * 39 + "1"
MODEL, GATED, ODD = "someone/tiny-vit", "someone/gated", "someone/odd"


class Hub(BaseHTTPRequestHandler):
    """What the hub's client asks for, out of the folders OWNER/NAME below `root`."""

    root: Path

    def do_GET(self) -> None:
        words = [word for word in self.path.partition("?")[0].split("/") if word]
        asked = words[2:] if words[:2] == ["api", "models"] else words
        repository = "/".join(asked[:2])
        files = {path.name: path.read_bytes() for path in (self.root / repository).glob("*.*")}
        about = [
            {"type": "file", "rfilename": name, "path": name, "size": len(body), "oid": name}
            for name, body in files.items()
        ]
        if not words:
            self.answer(200, b"")
        elif repository == GATED:
            self.answer(403, b"{}", x_error_code="GatedRepo")
        elif repository == ODD:
            self.answer(200, b"<html>log in to the hotel's network</html>")
        elif not files:
            self.answer(404, b"{}", x_error_code="RepoNotFound")
        elif asked[2] == "revision" and asked[3] not in ("main", "v2"):
            self.answer(404, b"{}", x_error_code="RevisionNotFound")
        elif asked[2] == "revision":
            self.answer(
                200, json.dumps({"id": repository, "sha": COMMIT, "siblings": about}).encode()
            )
        elif asked[2] == "tree":
            self.answer(200, json.dumps(about).encode())
        else:
            self.answer(200, files[asked[4]])

    do_HEAD = do_GET

    def answer(self, code: int, body: bytes, **more: str) -> None:
        self.send_response(code)
        more |= {"etag": hashlib.sha256(body).hexdigest(), "x-repo-commit": COMMIT}
        for name, value in (more | {"content-length": str(len(body))}).items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *said: object) -> None:
        pass


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """The server, and its `root` with a timm model and one of transformers."""
    root = tmp_path / "hub"
    save_for_hf(made(), root / MODEL, model_args=SMALL, safe_serialization=True)
    config = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    config |= {"intermediate_size": 32, "image_size": 32, "patch_size": 8}
    hf.ViTForImageClassification(hf.ViTConfig(**config)).save_pretrained(root / "someone/of-hf")
    side = {"height": 32, "width": 32}
    hf.ViTImageProcessor(size=side).save_pretrained(root / "someone/of-hf")
    save_for_hf(made(), root / "someone/pickled", model_args=SMALL, safe_serialization=False)
    (root / "someone/bare").mkdir()
    (root / "someone/bare/config.json").write_text((root / MODEL / "config.json").read_text())
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Here", (Hub,), {"root": root}))
    Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(client.constants, "ENDPOINT", address)
    template = f"{address}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
    monkeypatch.setattr(client.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(client.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield server
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("name", [MODEL, f"{MODEL}@v2", "someone/of-hf", "someone/pickled"])
def test_a_model_of_the_hub_is_that_of_its_folder(hub, name):
    fetched = open_model(f"hf-hub:{name}")
    hub.shutdown()
    hub.server_close()
    kept = open_model(f"hf_hub:{name}")  # as it lies in the cache, for the hub is gone
    there = open_model(f"local-dir:{hub.RequestHandlerClass.root / name.partition('@')[0]}")
    images = torch.randn(2, 3, 32, 32)
    for own in (fetched, kept):
        assert torch.equal(own.network(images), there.network(images))
        assert torch.equal(*(explain(each.network, images) for each in (own, there)))
        assert (own.view, own.spec.mean) == (there.view, there.spec.mean)
    if name == MODEL:
        theirs = timm.create_model(
            f"hf-hub:{name}", pretrained=True, cache_dir=client.constants.HF_HUB_CACHE
        )
        assert torch.equal(theirs.eval()(images), fetched.network(images))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("someone/nothing", "shows you no such model; check its name"),
        (f"{MODEL}@v3", "shows you no such model; check its name"),
        ("a/b/c", "shows you no such model; check its name, OWNER/NAME or"),
        (GATED, "its owner has to let you in; ask on its page"),
        ("someone/bare", "has no model.safetensors nor pytorch_model.bin"),
        (ODD, "cannot be had"),
    ],
)
def test_what_cannot_be_had_is_said_in_a_sentence(hub, tmp_path, capsys, monkeypatch, name, said):
    monkeypatch.setenv("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    Image.new("RGB", (40, 40)).save(tmp_path / "cat.png")
    given = ["explain", str(tmp_path / "cat.png"), "--model", f"hf-hub:{name}"]
    assert main([*given, "-o", str(tmp_path / "map.png")]) == 2
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert told.startswith(f"error: model 'hf-hub:{name}'") and said in told
