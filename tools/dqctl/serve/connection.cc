#include "serve/connection.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "exit.h"

namespace dqctl {
namespace {

constexpr std::chrono::milliseconds kLinger{500};
constexpr std::size_t kMostLingering = 256 * 1024;  // bytes

// The first error of OpenSSL in this thread.
std::string tls_error() {
  const unsigned long code = ::ERR_get_error();
  const char* reason = code == 0 ? nullptr : ::ERR_reason_error_string(code);
  ::ERR_clear_error();
  if (code != 0 && ERR_GET_LIB(code) == ERR_LIB_SYS) return std::generic_category().message(ERR_GET_REASON(code));
  return reason == nullptr ? "unknown error" : reason;
}

[[noreturn]] void refuse_file(const char* option, const char* expected) {
  throw Usage(std::string(option) + ": the file cannot be used: " + tls_error() + "; expected " + expected);
}

}  // namespace

TlsContext::TlsContext(const std::string& cert, const std::string& key, const std::string& client_ca)
    : context_(::SSL_CTX_new(::TLS_server_method())) {
  ::ERR_clear_error();
  if (context_ == nullptr) throw Failure(Exit::failed, "cannot use TLS: " + tls_error());
  SSL_CTX* context = context_.get();
  SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
  ::SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  // No session is resumed: OpenSSL ends the connection of a client with a certificate that tries to.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  ::SSL_CTX_set_num_tickets(context, 0);
  if (::SSL_CTX_use_certificate_chain_file(context, cert.c_str()) != 1) {
    refuse_file("--https-cert", "a certificate with its chain, PEM");
  }
  // An encrypted key would ask for its password on the terminal.
  ::SSL_CTX_set_default_passwd_cb(context, [](char*, int, int, void*) { return 0; });
  if (::SSL_CTX_use_PrivateKey_file(context, key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      ::SSL_CTX_check_private_key(context) != 1) {
    refuse_file("--https-key", "the key of --https-cert, PEM, without a password");
  }
  if (client_ca.empty()) return;
  if (::SSL_CTX_load_verify_locations(context, client_ca.c_str(), nullptr) != 1) {
    refuse_file("--https-client-ca", "certificate authorities, PEM");
  }
  ::SSL_CTX_set_client_CA_list(context, ::SSL_load_client_CA_file(client_ca.c_str()));
  ::SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
}

void TlsContext::Free::operator()(ssl_ctx_st* context) const { ::SSL_CTX_free(context); }

void Connection::Free::operator()(ssl_st* ssl) const { ::SSL_free(ssl); }

bool Connection::start_tls(const TlsContext& context, Clock::time_point until) {
  ssl_.reset(::SSL_new(context.get()));
  if (ssl_ == nullptr || ::SSL_set_fd(ssl_.get(), fd_.get()) != 1) return false;
  while (true) {
    ::ERR_clear_error();
    const int result = ::SSL_accept(ssl_.get());
    if (result == 1) return true;
    if (!wait_for_tls(result, until)) return false;
  }
}

std::size_t Connection::read(char* into, std::size_t size, Clock::time_point until) {
  while (true) {
    if (ssl_ != nullptr) {
      ::ERR_clear_error();
      const int n = ::SSL_read(ssl_.get(), into, static_cast<int>(std::min<std::size_t>(size, 1U << 20)));
      if (n > 0) return static_cast<std::size_t>(n);
      if (!wait_for_tls(n, until)) return 0;
      continue;
    }
    const auto n = ::recv(fd_.get(), into, size, 0);
    if (n >= 0) return static_cast<std::size_t>(n);
    if (errno == EINTR) continue;
    if ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait(POLLIN, until)) return 0;
  }
}

bool Connection::write(std::string_view bytes, Clock::time_point until) {
  while (!bytes.empty()) {
    if (ssl_ != nullptr) {
      ::ERR_clear_error();
      const int n =
          ::SSL_write(ssl_.get(), bytes.data(), static_cast<int>(std::min<std::size_t>(bytes.size(), 1U << 20)));
      if (n <= 0 && !wait_for_tls(n, until)) return false;
      if (n > 0) bytes.remove_prefix(static_cast<std::size_t>(n));
      continue;
    }
    const auto n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR && ((errno != EAGAIN && errno != EWOULDBLOCK) || !wait(POLLOUT, until))) {
      return false;
    }
  }
  return true;
}

void Connection::finish() {
  if (ssl_ != nullptr) {
    ::ERR_clear_error();
    ::SSL_shutdown(ssl_.get());
    ssl_.reset();
  }
  ::shutdown(fd_.get(), SHUT_WR);
  const auto until = Clock::now() + kLinger;
  std::array<char, 4096> rest;
  std::size_t seen = 0;
  while (seen < kMostLingering) {
    const std::size_t n = read(rest.data(), rest.size(), until);
    if (n == 0) break;
    seen += n;
  }
}

void Connection::cut() const { ::shutdown(fd_.get(), SHUT_RDWR); }

bool Connection::wait(short events, Clock::time_point until) const {
  while (true) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now());
    if (left.count() <= 0) return false;
    pollfd one{fd_.get(), events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::min<long long>(left.count(), 60'000)));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool Connection::wait_for_tls(int result, Clock::time_point until) const {
  const int error = ::SSL_get_error(ssl_.get(), result);
  if (error == SSL_ERROR_WANT_READ) return wait(POLLIN, until);
  if (error == SSL_ERROR_WANT_WRITE) return wait(POLLOUT, until);
  return false;
}

}  // namespace dqctl
