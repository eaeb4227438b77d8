# Fails where CMake is older than the project needs; run as `cmake -P`.
cmake_minimum_required(VERSION 3.25)
