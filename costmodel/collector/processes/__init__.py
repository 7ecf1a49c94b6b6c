"""Resources that processes of one machine share: temporary folders, and the SMs of devices."""
