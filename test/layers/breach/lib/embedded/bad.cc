// Input of the test layers/breach; breach.txt lists the includes that the layer check must report.
#include <delayqueue/error.h>
#include <delayqueue/producer.h>
#include "os/descriptor.h"
#include "queue/endpoint.h"
