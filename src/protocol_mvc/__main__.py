"""The program `protocol-mvc`, also as `python -m protocol_mvc`."""

from protocol_mvc.cli.signals import handle_signals


def main() -> None:
    """Run the command."""
    handle_signals()
    from protocol_mvc.cli.main import app

    app()


if __name__ == "__main__":
    main()
