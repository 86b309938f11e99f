// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <delayqueue/error.h>
#include <delayqueue/producer.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <nlohmann/json.hpp>
#include "redis/reply.h"
#include "store/keys.h"
