"""One machine as a Ray cluster with the application of `deploy/ray`: `python -m tests.deploy.ray_cluster PORT`.

Prints a line when it serves, and ends with its standard input.
"""

import sys

import ray
import yaml
from ray import serve
from ray.serve.config import gRPCOptions

from tests.e2e.harness.models import DEMO_DRAFT, DEMO_TARGET, ROOT
from tests.harness.network.free_port import free_port

sys.path.insert(0, str(ROOT / "deploy/ray"))

from outrider_ray import app


def main() -> None:
    """Serve until standard input ends."""
    config = yaml.safe_load((ROOT / "deploy/ray/config.yaml").read_text())
    arguments = config["applications"][0]["args"]
    quick = ["--threads=1", "--stream-capacity=8", "--no-lookup", "--insecure"]
    arguments["target_options"] = [f"--model={DEMO_TARGET}", *quick]
    arguments["target_resources"] = {"num_cpus": 1}
    arguments["autoscaling"] |= {"min_replicas": 2, "max_replicas": 2}
    arguments["drain_seconds"] = 1
    options = [f"--model={DEMO_DRAFT}", "--threads=1", "--insecure"]
    arguments["drafts"] |= {"first_port": free_port(), "resources": {"num_cpus": 1}, "options": options, "count": 1}
    path = {"env_vars": {"PYTHONPATH": f"{ROOT}:{ROOT / 'deploy/ray'}"}}
    ray.init(num_cpus=4, include_dashboard=False, runtime_env=path, object_store_memory=128 << 20)
    grpc_options = gRPCOptions(**{**config["grpc_options"], "port": int(sys.argv[1])})
    serve.start(grpc_options=grpc_options, http_options={"port": free_port()})
    serve.run(app(arguments), name="outrider")
    print("serving", flush=True)
    sys.stdin.read()
    ray.shutdown()


if __name__ == "__main__":
    main()
