"""The tables of docs/operate/checkpoints.md are those of the code."""

from scripts.checkpoint_docs import PAGE, with_tables


def test_the_tables_of_checkpoints_are_up_to_date():
    page = PAGE.read_text()
    assert "LlamaForCausalLM" in page
    assert with_tables(page) == page, "run `python -m scripts.checkpoint_docs`"
