"""What is known of a kernel from other platforms, whatever that is: nothing, one of them, or all but one."""
