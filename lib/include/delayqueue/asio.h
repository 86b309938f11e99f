// Asio: a consumer whose handler is a coroutine, and sends that can be awaited. Header-only, over Delivery and
// Sender::send_async.
//
// It uses standalone Asio if there is <asio.hpp>, else Boost.Asio; DELAYQUEUE_BOOST_ASIO selects Boost.Asio. Coroutines
// need C++20, and an Asio that has them for the compiler: clang with libstdc++ needs 1.26. Only programs that include
// this header depend on Asio.
#pragma once

#include <delayqueue/version.h>

#include <delayqueue/error.h>
#include <delayqueue/handler.h>
#include <delayqueue/message.h>
#include <delayqueue/sender.h>

#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#if !defined(DELAYQUEUE_BOOST_ASIO) && __has_include(<asio.hpp>)
#include <asio.hpp>
namespace delayqueue {
namespace net = ::asio;  // the Asio in use
}
#else
#include <boost/asio.hpp>
namespace delayqueue {
namespace net = ::boost::asio;  // the Asio in use
}
#endif

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

// Sender::send_async() with the completion tokens of Asio: callbacks, use_future, use_awaitable.
//
//   const Sent sent = co_await async_send(producer, "order 42", net::use_awaitable);
//
// The signature is void(std::exception_ptr, Sent). The completion handler gets the errors of the send, also those of
// invalid arguments. It is called on its associated executor (default: the system executor of Asio), never in this
// call; the executor must outlive the Sender. A send cannot be cancelled. The call blocks the thread
// while too many sends have no result: see Sender::send_async(). A loop that must never block calls
// Sender::try_send_async().
template <class CompletionToken>
auto async_send(Sender& sender, std::string payload, const SendOptions& options, CompletionToken&& token) {
  return net::async_initiate<CompletionToken, void(std::exception_ptr, Sent)>(
      [&sender](auto handler, std::string body, const SendOptions& terms) {
        // The executor runs until the completion.
        auto work = net::make_work_guard(net::get_associated_executor(handler, net::system_executor()));
        const auto shared = std::make_shared<decltype(handler)>(std::move(handler));
        const SendCallback done = [shared, work](const AsyncSent& result) {
          net::post(work.get_executor(), [own = std::move(*shared), result]() mutable {
            std::move(own)(result.error(), result ? result.get() : Sent());
          });
        };
        try {
          sender.send_async(std::move(body), terms, done);
        } catch (...) {
          done(AsyncSent(std::current_exception(), ""));
        }
      },
      token, std::move(payload), options);
}

// The same with default options. Do not write {} for options in a co_await: gcc 12 destroys them twice.
template <class CompletionToken>
auto async_send(Sender& sender, std::string payload, CompletionToken&& token) {
  return async_send(sender, std::move(payload), SendOptions(), std::forward<CompletionToken>(token));
}

#if defined(ASIO_HAS_CO_AWAIT) || defined(BOOST_ASIO_HAS_CO_AWAIT)

namespace internal {

template <class Coroutine>
net::awaitable<void> settle_by(Coroutine coroutine, Delivery delivery) {
  std::optional<Verdict> verdict;
  try {
    verdict = co_await coroutine(delivery.message());
  } catch (...) {
    verdict = nack(current_exception_text());
  }
  static_cast<void>(std::move(delivery).settle(*std::move(verdict)));
}

}  // namespace internal

// Returns a handler for a Consumer that runs a coroutine for each message on this executor:
//
//   net::awaitable<Verdict> expire_order(const Message& message);
//
//   ConsumerOptions options;
//   options.concurrency = 10'000;  // coroutines at the same time
//   options.tuning.threads = 1;    // it only starts them
//   Consumer worker(url, "orders", in_coroutines(io.get_executor(), expire_order), options);
//
// The message is valid until the coroutine ends. An exception is a nack with its text as reason.
//
// The executor must run while the consumer does. Keep a work guard, because a context without work returns from run().
//
// To end, first stop the consumer while the executor runs: by request_stop(), or by stop() in a thread that does not
// run the executor. Then end the executor. Its context must outlive the consumer. Coroutines that are suspended when
// the context is destroyed settle nothing: after a stop their messages are delivered again when their leases end.
template <class Executor, class Coroutine>
Handler in_coroutines(Executor executor, Coroutine coroutine) {
  return [executor, coroutine](Delivery delivery) {
    net::co_spawn(executor, internal::settle_by(coroutine, std::move(delivery)), net::detached);
  };
}

#endif

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
