// The preamble of the tests: doctest, the public headers, the standard headers that most of them use, and the parts
// that they share.
#pragma once

#include <delayqueue/delayqueue.h>
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <iterator>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "support/ledger.h"
#include "support/server.h"
#include "support/text.h"
#include "support/with.h"

using namespace std::chrono_literals;  // NOLINT(google-global-names-in-headers)
using test::ack_all;
using test::ConsumerPtr;
using test::content_of;
using test::delayed;
using test::eventually;
using test::fresh_queue;
using test::Gate;
using test::has;
using test::kId;
using test::kPatience;
using test::Ledger;
using test::numbers;
using test::Queue;
using test::quick;
using test::Redis;
using test::thrown;
using test::with;
