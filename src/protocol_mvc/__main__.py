"""`python -m protocol_mvc` is the command."""

from protocol_mvc.cli.main import main

main()
