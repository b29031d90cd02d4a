"""Files, random seeds, devices, processes and text: what every folder may use."""
