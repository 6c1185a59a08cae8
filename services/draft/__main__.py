"""python -m services.draft: the draft service, as `outrider draft` starts it."""

import argparse
import sys

from services.draft.command import add_options, run

parser = argparse.ArgumentParser(prog="services.draft", description="Predict a target's next tokens over gRPC.")
add_options(parser)
sys.exit(run(parser.parse_args()))
