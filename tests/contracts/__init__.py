"""What every sink must do, whatever it writes to."""
