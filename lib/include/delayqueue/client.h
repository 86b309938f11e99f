// Options that several classes share: how to connect, the names of the keys, and durability.
//
// All options are plain structs with a default for every member. Times are std::chrono durations.
//
//   C++20  Consumer c(url, "orders", handler, {.concurrency = 4, .lease = 30s});
//   C++17  ConsumerOptions o;
//          o.concurrency = 4;
//          o.lease = 30s;
//          Consumer c(url, "orders", handler, o);
//
// An invalid value (a negative delay, a lease of zero) throws std::invalid_argument that names the member and the
// value.
#pragma once

#include <delayqueue/export.h>
#include <delayqueue/types.h>

#include <optional>
#include <string>

namespace delayqueue {

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

// How to connect to the server. Members that are set override the same part of the URL.
struct ClientOptions {
  std::string user{};         // ACL user; empty: the URL's, or the default user
  std::string password{};     // empty: the URL's, or none
  std::string client_name{};  // the name in CLIENT LIST, without spaces; empty: "delayqueue"
  // For the look-up of the host name, the socket, TLS and the login together; at least 1 ms. Addresses that a name
  // server sends later are used by the next attempt.
  milliseconds connect_timeout{2000};
  // Of silence: no byte was sent or received for so long; at least 1 ms. Only this detects a frozen server. A call with
  // a large payload takes as long as its bytes need, if they are not slower than 32 KiB a second.
  milliseconds command_timeout{3000};
  TlsOptions tls{};
  SentinelOptions sentinel{};
};

enum class HashTag { automatic, on, off };  // automatic: on in a Cluster, off elsewhere; off is refused in a Cluster
DELAYQUEUE_EXPORT const char* to_string(HashTag hash_tag);

// For queues that are shared with workers of the Go library HDT3213/delayqueue.
struct GoCompatibility {
  bool bodies_under_dp = false;  // store payloads under dp:..., where the Go library expects them, with any prefix

  // cancel, reschedule and bury also remove the id from the lists, if these have at most 5,000 ids: a Go worker with a
  // fetch limit fetches less for every id whose payload is missing.
  bool remove_from_lists = false;
};

// The names of the queue's keys. All programs that share a queue must use the same values. The name of a queue, and the
// prefix, has 1 to 255 bytes of valid UTF-8 without control characters, and does not end in #<number>.<number>; with a
// hash tag it has no braces. Inspector and QueueAdmin also read queues with other names, and forget them.
struct KeyOptions {
  std::string prefix = "dp";              // keys are <prefix>:<queue>:...
  HashTag hash_tag = HashTag::automatic;  // on: {<prefix>:<queue>}:..., all in one Cluster slot
  GoCompatibility go{};
};

// Where a write must be stored before a call returns. Redis replies when the master has the write in memory.
//
// By default the call returns after this reply. With appendonly yes and appendfsync everysec a power cut can lose the
// last second or two of writes, and so can a kill -9 of the server while its disk is busy. A failover can lose writes
// that no replica had received.
//
// If the write is not confirmed within the timeout, a call of a Producer throws ConnectionError: the message is stored,
// but not as durably as required. Send it again with its id: while it is in the queue, this creates no second message,
// and waits again.
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

}  // namespace delayqueue
