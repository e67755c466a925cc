// Replaces Cyrus SASL in a program without shared libraries. librdkafka uses Cyrus SASL only for GSSAPI (Kerberos).
// Cyrus SASL loads the modules for GSSAPI while it runs, which such a program cannot do. PLAIN, SCRAM and OAUTHBEARER
// are librdkafka's own.
#include <sasl/sasl.h>

static const char *const reason = "this program was built without Cyrus SASL; use the image, or a build with shared libraries, for GSSAPI";

int sasl_client_init(const sasl_callback_t *callbacks) {
    (void)callbacks;
    return SASL_OK;
}

int sasl_client_new(const char *service, const char *server, const char *local, const char *remote, const sasl_callback_t *callbacks,
                    unsigned flags, sasl_conn_t **connection) {
    (void)service, (void)server, (void)local, (void)remote, (void)callbacks, (void)flags;
    *connection = 0;
    return SASL_NOMECH;
}

int sasl_client_start(sasl_conn_t *connection, const char *mechanisms, sasl_interact_t **prompts, const char **output, unsigned *length,
                      const char **mechanism) {
    (void)connection, (void)mechanisms, (void)prompts, (void)output, (void)length, (void)mechanism;
    return SASL_NOMECH;
}

int sasl_client_step(sasl_conn_t *connection, const char *input, unsigned inputLength, sasl_interact_t **prompts, const char **output,
                     unsigned *length) {
    (void)connection, (void)input, (void)inputLength, (void)prompts, (void)output, (void)length;
    return SASL_NOMECH;
}

void sasl_dispose(sasl_conn_t **connection) { *connection = 0; }

const char *sasl_errdetail(sasl_conn_t *connection) {
    (void)connection;
    return reason;
}

const char *sasl_errstring(int code, const char *languages, const char **language) {
    (void)code, (void)languages, (void)language;
    return reason;
}

int sasl_getprop(sasl_conn_t *connection, int number, const void **value) {
    (void)connection, (void)number;
    *value = 0;
    return SASL_NOTINIT;
}

int sasl_listmech(sasl_conn_t *connection, const char *user, const char *prefix, const char *separator, const char *suffix,
                  const char **result, unsigned *length, int *count) {
    (void)connection, (void)user, (void)prefix, (void)separator, (void)suffix, (void)length, (void)count;
    *result = "";
    return SASL_NOMECH;
}
