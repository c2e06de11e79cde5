"""From a declaration to running Spark queries: declare, compile, plan, build, run."""
