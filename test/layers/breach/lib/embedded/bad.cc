#include <delayqueue/error.h>
#include <delayqueue/producer.h>
#include "os/descriptor.h"
#include "queue/endpoint.h"
