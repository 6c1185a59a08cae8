"""python -m services.target: the target service, as `outrider target` starts it."""

import argparse
import sys

from services.target.command import add_options, run

parser = argparse.ArgumentParser(prog="services.target", description="Serve a model's text over gRPC.")
add_options(parser)
sys.exit(run(parser.parse_args()))
