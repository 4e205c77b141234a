"""lets ``python -m holdtrue`` be the command"""

from holdtrue.cli import main

if __name__ == "__main__":
    main()
