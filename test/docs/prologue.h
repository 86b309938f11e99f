// What the snippets of the documents may use; the beginning of docs_test.cc.
#include <delayqueue/delayqueue.h>
#include <delayqueue/testing.h>

#include <doctest/doctest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

using namespace std::chrono_literals;
