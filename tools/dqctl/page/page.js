// The script of the page of dqctl serve.
