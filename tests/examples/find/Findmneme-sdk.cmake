# find_package(mneme-sdk) inside this tree: its targets and functions are there.
set(mneme-sdk_FOUND TRUE)
