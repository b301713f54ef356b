"""What helps where: each option of a paste against the same default, measured for what it claims."""
