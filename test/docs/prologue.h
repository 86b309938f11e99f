// What the snippets of the documents may use; the beginning of docs_test.cc.
#include <delayqueue/batch.h>
#include <delayqueue/delayqueue.h>
#include <delayqueue/testing.h>

#include <doctest/doctest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

// A pool of threads, which waits for its tasks when it is destroyed. One thread may post tasks.
struct Pool {
  Pool() = default;
  ~Pool() {
    for (std::thread& thread : threads) thread.join();
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  template <class Task>
  void post(Task task) {
    threads.emplace_back(std::move(task));
  }

  std::vector<std::thread> threads;
};
