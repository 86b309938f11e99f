// Client: the connections to a server, Sentinel group or Cluster, and the names of the keys there. Before it: QueueName
// and QueueNames; Durability; and the options of a Client for TLS, Sentinels, keys and the login.
//
// All options of this library are plain structs with a default for every member. Times are std::chrono durations. An
// invalid value (a negative delay, a lease of zero) throws std::invalid_argument, which names the member and the value.
//
//   C++20  Consumer c(url, "orders", handler, {.concurrency = 4, .lease = 30s});
//   C++17  ConsumerOptions o;
//          o.concurrency = 4;
//          o.lease = 30s;
//          Consumer c(url, "orders", handler, o);
#pragma once

#include <delayqueue/detail/braces.h>
#include <delayqueue/message.h>
#include <delayqueue/version.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace delayqueue {
inline namespace DELAYQUEUE_ABI {

namespace internal {
class Endpoint;
}  // namespace internal

// The name of a queue: 1 to 255 bytes of valid UTF-8 without control characters, not ending in #<number>.<number>. With
// a hash tag, so in every Cluster, it must not contain { or }; constructors of Producer, Consumer and so on check that.
// Made from a string, a string view or a literal. Two texts in braces do not compile: std::string would read them as
// two pointers. A value: copies are independent.
class DELAYQUEUE_EXPORT QueueName {
 public:
  // Throws std::invalid_argument for another name, and for a null pointer.
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, std::string_view>>>
  QueueName(const Text& name) : name_(checked(name)) {}  // NOLINT(google-explicit-constructor)
  QueueName(std::nullptr_t) = delete;

  // The name of an existing queue, without a check: for names that another program or an older version has made. An
  // Inspector and a QueueAdmin read, empty and forget such a queue. A Producer and a Consumer refuse an invalid name.
  static QueueName of_existing(std::string name) { return {Unchecked(), std::move(name)}; }

  const std::string& str() const { return name_; }

  friend bool operator==(const QueueName& a, const QueueName& b) { return a.name_ == b.name_; }
  friend bool operator!=(const QueueName& a, const QueueName& b) { return !(a == b); }

 private:
  struct Unchecked {};
  QueueName(Unchecked, std::string name) : name_(std::move(name)) {}
  static std::string checked(const char* name);
  static std::string checked(std::string_view name);

  std::string name_;
};

// The names of one queue or of several: "orders", {"orders", "mails"}, or a vector of strings. A value: copies are
// independent.
class QueueNames {
 public:
  template <class Text, class = std::enable_if_t<std::is_convertible_v<const Text&, QueueName>>>
  QueueNames(const Text& name) : names_{QueueName(name)} {}  // NOLINT(google-explicit-constructor)
  QueueNames(std::initializer_list<QueueName> names) : names_(names) {}
  QueueNames(std::vector<QueueName> names) : names_(std::move(names)) {}  // NOLINT(google-explicit-constructor)

  // A template, because braces could make a std::vector<std::string> of two pointers.
  template <class Strings, std::enable_if_t<std::is_same_v<Strings, std::vector<std::string>>, int> = 0>
  QueueNames(const Strings& names) : names_(names.begin(), names.end()) {}  // NOLINT(google-explicit-constructor)

  std::vector<QueueName>::const_iterator begin() const { return names_.begin(); }
  std::vector<QueueName>::const_iterator end() const { return names_.end(); }
  std::size_t size() const { return names_.size(); }

 private:
  std::vector<QueueName> names_;
};

// Where a write must be stored before a call returns. Redis replies when the master has the write in memory.
//
// By default the call returns after this reply. With appendonly yes and appendfsync everysec a power cut can lose the
// last second or two of writes, and so can a kill -9 of the server while its disk is busy. A failover can lose writes
// that no replica had received.
//
// If the write is not confirmed within the timeout, a call of a Producer throws ConnectionError: the message is stored,
// but not as durably as required. The Producer does not repeat the call. Send it again with its id: while the message
// is in the queue, this creates no second one, and waits again. The timeout is at most ProducerOptions::send_timeout,
// unless that is 0.
class DELAYQUEUE_EXPORT Durability {
 public:
  enum class Kind { none, replicas, disk };

  Durability() = default;

  // `count` replicas (1 to 1,000) have the write in memory, too (WAIT). It survives the loss of the master if one of
  // them is promoted. The timeout is at least 1 ms.
  static Durability replicas(int count, milliseconds timeout = milliseconds(1000));

  // The master has the write on its disk (WAITAOF). Needs Redis 7.2 or later, or Valkey, with appendonly yes. With
  // appendfsync everysec a call takes up to a second. If the server cannot confirm this, the call throws ReplyError
  // before anything is written.
  static Durability disk(milliseconds timeout = milliseconds(2000));

  Kind kind() const { return kind_; }
  int replica_count() const { return replica_count_; }
  milliseconds timeout() const { return timeout_; }

 private:
  Durability(Kind kind, int replica_count, milliseconds timeout)
      : kind_(kind), replica_count_(replica_count), timeout_(timeout) {}

  Kind kind_ = Kind::none;
  int replica_count_ = 0;
  milliseconds timeout_{0};
};
DELAYQUEUE_EXPORT const char* to_string(Durability::Kind kind);  // "none", "replicas", "disk"

// TLS, for rediss, rediss+sentinel and rediss+cluster URLs. With another URL a member that is set throws
// std::invalid_argument. The certificate of the server must be valid for the host in the URL.
struct TlsOptions {
  std::string ca_file{};      // PEM; empty: the system's certificate authorities
  std::string cert_file{};    // client certificate, PEM, with its chain; empty: none is sent
  std::string key_file{};     // private key of cert_file, PEM; required if cert_file is set
  std::string server_name{};  // the name to verify, also sent as SNI; empty: the URL's host
};

// How to connect to the Sentinels of a redis+sentinel:// or rediss+sentinel:// URL. The user and password of the URL
// and of ClientOptions are for the servers that the Sentinels monitor, and are never sent to a Sentinel. With
// another URL user, password, encrypted and tls throw std::invalid_argument if they are set.
struct SentinelOptions {
  std::string user{};               // ACL user; empty: the default user
  std::string password{};           // empty: none
  std::optional<bool> encrypted{};  // use TLS; unset: the scheme of the URL decides
  std::optional<TlsOptions> tls{};  // if encrypted; unset: ClientOptions::tls

  // True: throw std::invalid_argument if a forged Sentinel could obtain the password; false: the logger gets a warning.
  // It could if connections to the Sentinels are not encrypted, connections to the servers are, and neither
  // ClientOptions::tls.ca_file nor its server_name is set: then any server with a valid certificate is accepted.
  bool refuse_unpinned = false;
};

enum class HashTag { automatic, on, off };  // automatic: on in a Cluster, off elsewhere; off is refused in a Cluster
DELAYQUEUE_EXPORT const char* to_string(HashTag hash_tag);

// For queues that are shared with workers of the Go library HDT3213/delayqueue.
struct GoCompatibility {
  bool bodies_under_dp = false;  // store payloads under dp:..., where the Go library expects them, with any prefix

  // cancel, reschedule and bury also remove the id from the lists, if these have at most 5,000 ids: a Go worker with a
  // fetch limit fetches less for every id whose payload is missing.
  bool remove_from_lists = false;

  bool report_events = false;  // publish to the Go library's event channel dq:<queue>:reportEvents
};

// The names of the queue's keys. All programs that share a queue must use the same values. The prefix has 1 to 255
// bytes of valid UTF-8 without control characters; with a hash tag it has no braces. An Inspector and a QueueAdmin
// accept prefixes of older versions that break these rules, so that such queues can be read, emptied and forgotten.
struct KeyOptions {
  std::string prefix = "dp";              // keys are <prefix>:<queue>:...
  HashTag hash_tag = HashTag::automatic;  // on: {<prefix>:<queue>}:..., all in one Cluster slot
  GoCompatibility go{};
};

// What a login sends.
struct Credentials {
  std::string user{};  // empty: the default user
  std::string password{};
  // When the login ends. Connections are replaced before that: 30 s before, or a quarter of the time that was left at
  // the login if that is less. A time that has passed throws AccessDenied. Unset: connections stay open.
  std::optional<std::chrono::system_clock::time_point> expires{};
};

// How to connect to the server. Members that are set override the same part of the URL.
struct ClientOptions {
  std::string user{};      // ACL user; empty: the URL's, or the default user
  std::string password{};  // empty: the URL's, or none
  // For passwords that change: returns the login in place of `user` and `password`, which must be empty, and of those
  // in the URL. Called before each login to a server (not to a Sentinel), in the thread that connects, also one of the
  // library; several threads may call it at the same time. Its time counts as connect_timeout. If it throws, the call
  // throws AccessDenied with the text.
  std::function<Credentials()> credentials{};
  std::string client_name{};  // the name in CLIENT LIST, without spaces; empty: "delayqueue"
  // For the look-up of the host name, the socket, TLS and the login together; at least 1 ms. If the name server answers
  // too late, the next attempt uses its answer.
  milliseconds connect_timeout{2000};
  // The longest silence: no byte was sent or received for this long. At least 1 ms. Only this and send_timeout detect a
  // frozen server. Large payloads that keep moving may take longer: see docs/operations.md, "Slow links".
  milliseconds command_timeout{3000};
  TlsOptions tls{};
  SentinelOptions sentinel{};
  KeyOptions keys{};
};

// The address of one server, Sentinel group or Cluster, the connections to it, and the names of keys. Any thread. Its
// copies, and what with_keys() returns, share the connections; two Clients that are made of the same URL
// share none. (Of an embedded: URL they share the server: a process has one for each folder.)
//
// For each call an object uses a connection that no other object uses at that moment, or opens one. So objects never
// wait for each other. Calls of the same object share its connection and may wait for each other, also for Durability:
// use one Producer for each durability and each send_timeout. They cost no more connections than their calls at the
// same time. Consumers and Inspector::next_event() have connections that are not shared. Objects made of a Client keep
// what they need of it, so they may be destroyed in any order. The last one closes the connections.
//
// After a fork() a Client works in the child, too, with other connections: see Producer.
class DELAYQUEUE_EXPORT Client {
 public:
  // url, with rediss in place of redis for TLS:
  //   redis://[user:password@]host[:port][/db]
  //   redis+sentinel://[user:password@]host[:port],host.../master[/db]
  //   redis+cluster://[user:password@]host[:port],host...
  //   unix://[user:password@]/path/to/socket[?db=n]
  //   embedded: or embedded:/folder, see PrivateServer in server.h
  // valkey in place of redis is the same.
  //
  // Does not connect. Throws std::invalid_argument that names the wrong part of the URL or the option, also for a null
  // pointer, as of getenv(). Throws SetupError if the folder is relative and the working directory was removed.
  Client(const char* url, ClientOptions options = {});
  Client(const std::string& url, ClientOptions options = {});
  Client(std::nullptr_t, ClientOptions = {}) = delete;
  template <std::size_t kLength, class = internal::IfSeveral<kLength>>  // it would be one std::string of two pointers
  Client(const char* const (&urls)[kLength], ClientOptions = {}) = delete;
  Client(const Client&) = default;
  Client& operator=(const Client&) = default;

  const KeyOptions& keys() const { return keys_; }

  // A Client that shares the connections of this one, with other names of keys: for example one for each tenant. Throws
  // std::invalid_argument for an invalid prefix, and for HashTag::off in a Cluster.
  Client with_keys(KeyOptions keys) const;

  // Connects and logs in, in one attempt; in a Cluster to one node. Touches no queue. For the start of a program: it
  // throws AccessDenied for a wrong password, and otherwise as Sender::send().
  void check() const;

 private:
  class DELAYQUEUE_HIDDEN Impl;
  friend class internal::Endpoint;

  std::shared_ptr<Impl> impl_;
  KeyOptions keys_;
};

}  // namespace DELAYQUEUE_ABI
}  // namespace delayqueue
