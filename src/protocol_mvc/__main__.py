"""`python -m protocol_mvc` runs the command `protocol-mvc`."""

from protocol_mvc.cli.main import main

main()
