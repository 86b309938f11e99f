#include "queue/client.h"

#include "embedded/private_folder.h"
#include "queue/option_checks.h"

#include <delayqueue/detail/owned.h>
#include <delayqueue/error.h>

#include <sys/un.h>

#include <stdexcept>
#include <utility>

namespace delayqueue {
namespace {

using redis::Url;

[[noreturn]] void reject_unused(const std::string& field, const Url& url, const std::string& why) {
  throw std::invalid_argument(field + ": set, but " + url.text() + ' ' + why);
}

void check_sentinel(const Url& url, const SentinelOptions& sentinel) {
  const bool fits = url.kind == Url::Kind::sentinel;
  const std::string why = "uses no Sentinels; expected redis+sentinel:// or rediss+sentinel://";
  if (!fits && !sentinel.user.empty()) reject_unused("sentinel.user", url, why);
  if (!fits && !sentinel.password.empty()) reject_unused("sentinel.password", url, why);
  if (!fits && sentinel.encrypted) reject_unused("sentinel.encrypted", url, why);
  if (!fits && sentinel.tls) reject_unused("sentinel.tls", url, why);
  if (sentinel.tls && !sentinel.encrypted.value_or(url.addresses.front().tls)) {
    reject_unused("sentinel.tls", url,
                  "has Sentinels without encryption; expected rediss+sentinel:// or sentinel.encrypted");
  }
}

// A connection to a Sentinel that is not encrypted may lead to an attacker. The server that this Sentinel names
// receives the password if its certificate is valid.
std::string risk_of_forged_sentinels(const Url& url, const ClientOptions& options) {
  const bool plain =
      url.kind == Url::Kind::sentinel && url.addresses.front().tls && !options.sentinel.encrypted.value_or(true);
  const bool pinned = !options.tls.ca_file.empty() || !options.tls.server_name.empty();
  if (!plain || pinned) return {};
  return "the connections to the Sentinels of " + url.text() +
         " are not encrypted: a forged Sentinel can name any server with a valid certificate, and that server receives "
         "the password; set tls.ca_file or tls.server_name of the ClientOptions, or encrypt the connections to the "
         "Sentinels";
}

// Parses the URL and checks the options.
Url checked_url(const std::string& url, const ClientOptions& options) {
  validate(options);
  Url parsed = redis::parse_url(url);
  const bool tls = !parsed.addresses.empty() && parsed.addresses.front().tls;
  const TlsOptions& wanted = options.tls;
  if (!tls && !(wanted.ca_file + wanted.cert_file + wanted.key_file + wanted.server_name).empty()) {
    reject_unused("tls", parsed, "is not encrypted; expected rediss://");
  }
  check_sentinel(parsed, options.sentinel);
  constexpr std::size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;
  for (const redis::Address& address : parsed.addresses) {
    if (!address.host.empty() || address.path.size() <= kLongestPath) continue;
    throw std::invalid_argument("url: " + parsed.text() + ": the path of a unix socket has at most " +
                                std::to_string(kLongestPath) + " bytes, this one " +
                                std::to_string(address.path.size()));
  }
  const std::string risk = risk_of_forged_sentinels(parsed, options);
  if (options.sentinel.refuse_unpinned && !risk.empty()) {
    throw std::invalid_argument("sentinel.refuse_unpinned: set, but " + risk);
  }
  return parsed;
}

const char* not_null(const char* url) {
  if (url == nullptr) throw std::invalid_argument("url: null; is the environment variable set?");
  return url;
}

}  // namespace

bool has_hash_tag(const KeyOptions& keys, bool is_cluster) {
  return keys.hash_tag == HashTag::on || (keys.hash_tag == HashTag::automatic && is_cluster);
}

// ---- What copies share ----------------------------------------------------------------------------------------------

struct Client::Impl::PoolOfProcess {
  const long process = internal::this_process();
  std::shared_ptr<ConnectionPool> pool;
  PoolOfProcess* parent = nullptr;  // of the process that forked this one; never used
};

Client::Impl::Impl(const std::string& url, ClientOptions options)
    : options_(std::move(options)),
      url_(checked_url(url, options_)),
      where_(url_.text()),
      warning_(risk_of_forged_sentinels(url_, options_)) {
  // The same relative folder is another one after the program has changed its working directory.
  if (!url_.folder.empty()) url_.folder = absolute_folder(url_.folder);
}

Client::Impl::~Impl() {
  for (PoolOfProcess* made = pool_; made != nullptr;) {
    const std::unique_ptr<PoolOfProcess> last(made);
    made = last->parent;
    if (last->process != internal::this_process()) internal::keep(std::move(last->pool));
  }
}

std::shared_ptr<ConnectionPool> Client::Impl::shared_pool() {
  PoolOfProcess* made = pool_;
  while (made == nullptr || made->process != internal::this_process()) {
    auto fresh = std::make_unique<PoolOfProcess>();
    fresh->pool = new_pool();
    fresh->parent = made;
    if (pool_.compare_exchange_strong(made, fresh.get())) made = fresh.release();
  }
  return made->pool;
}

void Client::Impl::check(const KeyOptions& keys) const {
  if (is_cluster() && keys.hash_tag == HashTag::off) {
    throw std::invalid_argument(
        "keys.hash_tag: off, but a Cluster needs all keys of a queue in one slot; leave it automatic");
  }
  validate(keys, has_hash_tag(keys, is_cluster()));
}

// ---- The public class -----------------------------------------------------------------------------------------------

Client::Client(const char* url, ClientOptions options) : Client(std::string(not_null(url)), std::move(options)) {}

Client::Client(const std::string& url, ClientOptions options)
    : impl_(std::make_shared<Impl>(url, options)), keys_(std::move(options.keys)) {
  impl_->check(keys_);
}

Client Client::with_keys(KeyOptions keys) const {
  impl_->check(keys);
  Client other = *this;
  other.keys_ = std::move(keys);
  return other;
}

void Client::check() const {
  const std::shared_ptr<ConnectionPool> pool = impl_->shared_pool();
  constexpr int kAnySlot = 0;
  if (impl_->is_cluster()) {
    static_cast<void>(pool->topology().masters());
  } else {
    static_cast<void>(pool->connect(kAnySlot));
  }
}

}  // namespace delayqueue
