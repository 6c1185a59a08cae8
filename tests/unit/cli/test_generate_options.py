"""outrider generate has an option for each number of sampling."""

import argparse

from services.cli.calls.generate import add_options
from services.engine.sampling_params import SAMPLING_NUMBERS


def test_each_number_of_sampling_is_an_option_of_its_type() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    given = [word for number in SAMPLING_NUMBERS for word in (f"--{number.name.replace('_', '-')}", "1")]
    arguments = vars(parser.parse_args([*given, "a prompt"]))
    assert [type(arguments[number.name]) for number in SAMPLING_NUMBERS] == [number.kind for number in SAMPLING_NUMBERS]
    assert all(vars(parser.parse_args(["a prompt"]))[number.name] is None for number in SAMPLING_NUMBERS)
