#include "queue/endpoint.h"

#include "embedded/folder_servers.h"
#include "queue/option_checks.h"
#include "redis/pipeline.h"

#include <delayqueue/error.h>

#include <sys/un.h>

#include <filesystem>
#include <stdexcept>

namespace delayqueue {
namespace {

using redis::Connection;
using redis::Topology;
using redis::Url;

// The server that an embedded: URL stands for, started by whoever finds it missing.
class EmbeddedServer : public Topology {
 public:
  EmbeddedServer(Url url, ConnectionOptions options) : url_(std::move(url)), options_(std::move(options)) {
    // Once and for all: the program may change its directory.
    if (!url_.folder.empty()) folder_ = std::filesystem::absolute(url_.folder).string();
  }

  std::unique_ptr<Connection> connect() override { return dial(servers().front()); }

  std::vector<redis::Address> servers() override {
    redis::Address address;
    address.path = embedded_socket(folder_);
    address.own_user = true;
    return {address};
  }

  std::unique_ptr<Connection> dial(const redis::Address& server) override {
    return std::make_unique<Connection>(server, redis::login_of(url_, options_), options_);
  }

 private:
  const Url url_;
  const ConnectionOptions options_;
  std::string folder_;
};

std::unique_ptr<Topology> make_topology(const Url& url, const ConnectionOptions& options, const store::Keys& keys) {
  switch (url.kind) {
    case Url::Kind::embedded:
      return std::make_unique<EmbeddedServer>(url, options);
    case Url::Kind::sentinel:
      return redis::sentinels(url, options);
    case Url::Kind::cluster:
      return redis::cluster(url, options, keys.pending);
    case Url::Kind::server:
      break;
  }
  return redis::single_server(url, options);
}

store::Keys keys_of(const std::string& queue, const QueueOptions& options, bool hash_tag) {
  return store::make_keys(queue, {options.prefix, hash_tag, options.bodies_under_dp});
}

bool wants_hash_tag(const QueueOptions& options, const Url& url) {
  return options.hash_tag == HashTag::on || (options.hash_tag == HashTag::automatic && url.kind == Url::Kind::cluster);
}

[[noreturn]] void pointless(const std::string& field, const Url& url, const std::string& why) {
  throw std::invalid_argument(field + ": set, but " + url.text() + ' ' + why);
}

void check_sentinel(const Url& url, const SentinelOptions& asked) {
  const bool fits = url.kind == Url::Kind::sentinel;
  const std::string why = "asks no Sentinel; expected redis+sentinel:// or rediss+sentinel://";
  if (!fits && !asked.user.empty()) pointless("connection.sentinel.user", url, why);
  if (!fits && !asked.password.empty()) pointless("connection.sentinel.password", url, why);
  if (!fits && asked.encrypted) pointless("connection.sentinel.encrypted", url, why);
  if (!fits && asked.tls) pointless("connection.sentinel.tls", url, why);
  if (asked.tls && !asked.encrypted.value_or(url.addresses.front().tls)) {
    pointless("connection.sentinel.tls", url,
              "has Sentinels without encryption; expected rediss+sentinel:// or sentinel.encrypted");
  }
}

// Sentinels that are not encrypted can be anybody's. What they name is sent the password if its certificate is valid.
std::string risk_of_false_sentinels(const Url& url, const ConnectionOptions& options) {
  const bool plain =
      url.kind == Url::Kind::sentinel && url.addresses.front().tls && !options.sentinel.encrypted.value_or(true);
  const bool pinned = !options.tls.ca_file.empty() || !options.tls.server_name.empty();
  if (!plain || pinned) return {};
  return "the Sentinels of " + url.text() +
         " are asked without encryption: a false one can name any server with a valid certificate, which is then sent "
         "the "
         "password; set connection.tls.ca_file or connection.tls.server_name, or let the Sentinels be encrypted";
}

// A user who may not look there cannot have made that queue, either.
bool exists(const redis::Pipeline& pipeline, std::size_t question) {
  try {
    return pipeline.reply(question).integer() != 0;
  } catch (const redis::AccessError&) {
    return false;
  }
}

// So that nothing is made of options that make no sense.
Url checked(const std::string& url, const std::string& queue, const ConnectionOptions& connection,
            const QueueOptions& options) {
  check(queue, connection, options);
  Url parsed = redis::parse_url(url);
  const bool tls = !parsed.addresses.empty() && parsed.addresses.front().tls;
  const TlsOptions& asked = connection.tls;
  if (!tls && !(asked.ca_file + asked.cert_file + asked.key_file + asked.server_name).empty()) {
    pointless("connection.tls", parsed, "is not encrypted; expected rediss://");
  }
  check_sentinel(parsed, connection.sentinel);
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  for (const redis::Address& address : parsed.addresses) {
    if (!address.host.empty() || address.path.size() <= kLongest) continue;
    throw std::invalid_argument("url: " + parsed.text() + ": the path of a unix socket has at most " +
                                std::to_string(kLongest) + " bytes, this one " + std::to_string(address.path.size()));
  }
  const std::string risk = risk_of_false_sentinels(parsed, connection);
  if (connection.sentinel.refuse_unpinned && !risk.empty()) {
    throw std::invalid_argument("connection.sentinel.refuse_unpinned: set, but " + risk);
  }
  if (parsed.kind == Url::Kind::cluster) {
    if (options.hash_tag == HashTag::off) {
      throw std::invalid_argument(
          "queue.hash_tag: off, but a Cluster needs all keys of a queue in one slot; leave it automatic");
    }
    QueueOptions tagged = options;
    tagged.hash_tag = HashTag::on;
    check(queue, connection, tagged);
  }
  return parsed;
}

}  // namespace

Endpoint::Endpoint(const std::string& url, const std::string& queue, const ConnectionOptions& connection,
                   const QueueOptions& options, RegisterQueue registers)
    : Endpoint(checked(url, queue, connection, options), queue, connection, options, registers) {}

Endpoint::Endpoint(const Url& url, const std::string& queue, const ConnectionOptions& connection,
                   const QueueOptions& options, RegisterQueue registers)
    : prefix_(options.prefix),
      where_(url.text()),
      warning_(risk_of_false_sentinels(url, connection)),
      keys_(keys_of(queue, options, wants_hash_tag(options, url))),
      other_keys_(keys_of(queue, options, !wants_hash_tag(options, url))),
      registers_(registers),
      check_hash_tag_conflict_(url.kind != Url::Kind::cluster),
      topology_(make_topology(url, connection, keys_)) {}

std::unique_ptr<Connection> Endpoint::connect() {
  std::unique_ptr<Connection> connection = topology_->connect();
  const std::lock_guard lock(mutex_);
  if (!verified_) verify_and_register(*connection);
  verified_ = true;
  return connection;
}

void Endpoint::verify_and_register(Connection& connection) {
  redis::Pipeline pipeline(connection);
  const auto ask = [&](const store::Keys& keys) {
    for (const std::string* key : {&keys.pending, &keys.ready, &keys.unack, &keys.retry, &keys.dead}) {
      pipeline.command("EXISTS").key(*key);
    }
  };
  const store::Keys& other = other_keys_;
  if (check_hash_tag_conflict_) ask(other);
  const std::size_t of_other = pipeline.size();
  if (registers_ == RegisterQueue::looks) ask(keys_);
  const std::size_t questions = pipeline.size();
  pipeline.run();
  for (std::size_t i = 0; i < of_other; ++i) {
    if (!exists(pipeline, i)) continue;
    throw std::invalid_argument("queue.hash_tag: this queue would be " + keys_.base + ", but " + other.base +
                                " exists at " + where_ + "; set hash_tag as those who use it do");
  }
  bool there = registers_ == RegisterQueue::works;
  for (std::size_t i = of_other; i < questions; ++i) there = exists(pipeline, i) || there;
  if (there) register_queue(connection);
}

// So that queues() finds it. Of a Cluster another node may hold that set; whether it does, or answers, does not matter.
void Endpoint::register_queue(Connection& connection) {
  redis::Pipeline pipeline(connection);
  pipeline.command("SADD").key(keys_.queues).arg(keys_.base);
  try {
    pipeline.run();
  } catch (const Error&) {
    if (connection.is_stale()) throw;
  }
}

}  // namespace delayqueue
