#!/bin/sh
# Stages as Kubernetes Jobs, as Snakemake's executor cluster-generic asks for them:
#   jobs.sh submit CORES MEMORY_MB GPUS SCRIPT    prints the name of a new Job
#   jobs.sh status NAME                           says running, success or failed
#   jobs.sh cancel NAME ...
set -eu

# Make these three yours. The pipeline itself runs in a pod like this too, so that it and all
# stages see the project, its .venv and the data under the same paths.
image=python:3.12
claim=relevit # ReadWriteMany
mount=/relevit

command=$1
shift
case $command in
submit)
    kubectl create -o name -f - <<END
apiVersion: batch/v1
kind: Job
metadata:
  generateName: relevit-
spec:
  backoffLimit: 0 # Snakemake tries again, see restart-times
  ttlSecondsAfterFinished: 86400
  template:
    spec:
      restartPolicy: Never
      tolerations:
        - {key: nvidia.com/gpu, operator: Exists, effect: NoSchedule}
      containers:
        - name: stage
          image: "$image"
          command: [/bin/sh, "$4"]
          workingDir: "$PWD"
          env: # the stages call papermill and jupyter by name, as they do here
            - {name: PATH, value: "$PATH"}
          resources:
            requests: {cpu: "$1", memory: "$2M", nvidia.com/gpu: "$3"}
            limits: {memory: "$2M", nvidia.com/gpu: "$3"}
          volumeMounts:
            - {name: project, mountPath: "$mount"}
            - {name: memory, mountPath: /dev/shm}
      volumes:
        - name: project
          persistentVolumeClaim: {claimName: "$claim"}
        - name: memory
          emptyDir: {medium: Memory}
END
    ;;
status)
    conditions='{.kind} {.status.conditions[?(@.status=="True")].type}'
    if ! found=$(kubectl get "$1" --ignore-not-found -o jsonpath="$conditions"); then
        echo running # the cluster did not answer: ask again
        exit
    fi
    case " $found " in
    *" Complete "*) echo success ;;
    *" Failed "* | "  ") echo failed ;; # or it is gone: somebody deleted it
    *) echo running ;;
    esac
    ;;
cancel)
    kubectl delete "$@" --ignore-not-found --wait=false
    ;;
esac
