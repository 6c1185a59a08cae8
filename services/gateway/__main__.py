"""python -m services.gateway: the gateway, as `outrider gateway` starts it."""

import argparse
import sys

from services.gateway.command import add_options, run

parser = argparse.ArgumentParser(prog="services.gateway", description="Serve HTTP in front of a target.")
add_options(parser)
sys.exit(run(parser.parse_args()))
