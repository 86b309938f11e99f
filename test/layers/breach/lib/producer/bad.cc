// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <delayqueue/producer.h>
#include <openssl/ssl.h>
#include "consumer/link.h"
#include "embedded/folder_servers.h"
#include "producer/group_commit.h"
#include "queue/endpoint.h"
#include "run/loop.h"
#include "store/moves.h"
