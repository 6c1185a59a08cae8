"""outrider generate has an option for each sampling number, with a help text."""

import argparse
import dataclasses

from outrider import GenerateOptions
from services.cli.calls.generate_options import add_options
from services.engine.sampling_params import SAMPLING_NUMBERS, SamplingParams


def parser_of_generate() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add_options(parser)
    return parser


def test_each_number_of_sampling_is_an_option_of_its_type() -> None:
    parser = parser_of_generate()
    given = [word for number in SAMPLING_NUMBERS for word in (f"--{number.name.replace('_', '-')}", "1")]
    arguments = vars(parser.parse_args([*given, "a prompt"]))
    assert [type(arguments[number.name]) for number in SAMPLING_NUMBERS] == [number.kind for number in SAMPLING_NUMBERS]
    assert all(vars(parser.parse_args(["a prompt"]))[number.name] is None for number in SAMPLING_NUMBERS)


def test_each_options_help_ends_with_the_servers_default() -> None:
    helps = {action.dest: str(action.help) for action in parser_of_generate()._actions}
    defaults = {field.name: field.default for field in dataclasses.fields(SamplingParams)}
    for number in SAMPLING_NUMBERS:
        assert helps[number.name].endswith(f"({defaults[number.name]:g})"), number.name


def test_every_option_of_generate_is_one_of_the_client() -> None:
    arguments = vars(parser_of_generate().parse_args(["a prompt"]))
    elsewhere = {"prompt", "chat", "address", "tls_ca", "tls_cert", "tls_key", "token_file", "wait", "timeout", "proof"}
    assert {*arguments} - elsewhere <= GenerateOptions.__optional_keys__
