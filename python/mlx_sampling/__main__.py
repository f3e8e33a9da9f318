import sys

from mlx_sampling.cli import main

sys.exit(main())
