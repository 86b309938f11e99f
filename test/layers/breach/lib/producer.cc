#include <delayqueue/producer.h>
#include <openssl/ssl.h>
#include "run/loop.h"
#include "store/store.h"
