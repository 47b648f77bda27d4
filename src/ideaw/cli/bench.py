"""`ideaw bench`: the tables of the README, made by one command each."""

import typer

app = typer.Typer(help="Measure a model, as the tables of the README do.", no_args_is_help=True)
