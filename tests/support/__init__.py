"""What the tests share: bit tapes, exact laws, chi-square, the small auditor and its broken mechanisms."""
