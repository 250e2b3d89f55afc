// A program with threads that uses OpenSSL by its C interface, for inside.rs: handshakes over memory.
//
//   inside PROBE CERTIFICATE KEY OBJECT
//
// OBJECT: this file once more, as a shared object (-DOBJECT) that calls the program back while it is loaded.
//
// OpenSSL is loaded when it runs, and its functions are looked up in the whole process, as in inside.py. Its headers
// are not needed. What is made is not freed.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef OBJECT
__attribute__((constructor)) static void is_being_loaded(void) {
    void (*during_load)(void);
    *(void **)&during_load = dlsym(RTLD_DEFAULT, "during_load");
    during_load();
}
#else

#define CHECK(condition)                                           \
    do {                                                           \
        if (!(condition)) {                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            exit(1);                                               \
        }                                                          \
    } while (0)

typedef void *P;
typedef void (*Log)(P, const char *);
typedef void (*Made)(P, P, P, int, long, P);
typedef P (*Allocate)(size_t, const char *, int);
typedef P (*Reallocate)(P, size_t, const char *, int);
typedef void (*Free)(P, const char *, int);

static P (*TLS_client_method)(void);
static P (*TLS_server_method)(void);
static P (*SSL_CTX_new)(P);
static int (*SSL_CTX_use_certificate_file)(P, const char *, int);
static int (*SSL_CTX_use_PrivateKey_file)(P, const char *, int);
static void (*SSL_CTX_set_keylog_callback)(P, Log);
static P (*SSL_new)(P);
static void (*SSL_set_bio)(P, P, P);
static void (*SSL_set_connect_state)(P);
static void (*SSL_set_accept_state)(P);
static int (*SSL_do_handshake)(P);
static P (*BIO_new)(P);
static P (*BIO_s_mem)(void);
static int (*BIO_up_ref)(P);
static int (*CRYPTO_get_ex_new_index)(int, long, P, Made, P, P);
static int (*CRYPTO_set_mem_functions)(Allocate, Reallocate, Free);

static void load(void) {
    const char *named = getenv("TANDEM_KEYTAP_LIBSSL");
    CHECK(dlopen(named ? named : "libssl.so.3", RTLD_NOW | RTLD_GLOBAL));
#define FIND(name)                            \
    *(P *)&name = dlsym(RTLD_DEFAULT, #name); \
    CHECK(name)
    FIND(TLS_client_method);
    FIND(TLS_server_method);
    FIND(SSL_CTX_new);
    FIND(SSL_CTX_use_certificate_file);
    FIND(SSL_CTX_use_PrivateKey_file);
    FIND(SSL_CTX_set_keylog_callback);
    FIND(SSL_new);
    FIND(SSL_set_bio);
    FIND(SSL_set_connect_state);
    FIND(SSL_set_accept_state);
    FIND(SSL_do_handshake);
    FIND(BIO_new);
    FIND(BIO_s_mem);
    FIND(BIO_up_ref);
    FIND(CRYPTO_get_ex_new_index);
    FIND(CRYPTO_set_mem_functions);
}

static P client_context, server_context;

static P context(P method, char **files) {
    P made = SSL_CTX_new(method);
    CHECK(made);
    // 1: SSL_FILETYPE_PEM.
    CHECK(SSL_CTX_use_certificate_file(made, files[0], 1) == 1);
    CHECK(SSL_CTX_use_PrivateKey_file(made, files[1], 1) == 1);
    return made;
}

static void handshake(void) {
    P client = SSL_new(client_context), server = SSL_new(server_context);
    P there = BIO_new(BIO_s_mem()), back = BIO_new(BIO_s_mem());
    CHECK(client && server && there && back);
    CHECK(BIO_up_ref(there) == 1 && BIO_up_ref(back) == 1);
    SSL_set_bio(client, back, there);
    SSL_set_bio(server, there, back);
    SSL_set_connect_state(client);
    SSL_set_accept_state(server);
    int of_client = 0, of_server = 0;
    for (int turn = 0; turn < 8 && !(of_client == 1 && of_server == 1); turn++) {
        of_client = SSL_do_handshake(client);
        of_server = SSL_do_handshake(server);
    }
    CHECK(of_client == 1 && of_server == 1);
}

static int is_to_be_cancelled, came_through, is_counted, allocations;

// A thread that has been told to end, but has not come to a point yet where it would.
static P cancelled(P unused) {
    (void)unused;
    // What OpenSSL does once for a thread is done then: to ask the kernel for randomness is such a point.
    handshake();
    is_to_be_cancelled = 1;
    pthread_cancel(pthread_self());
    handshake();
    came_through = 1;
    pthread_testcancel();
    return NULL;
}

static void run_cancelled(void) {
    pthread_t thread;
    P result = NULL;
    CHECK(pthread_create(&thread, NULL, cancelled, NULL) == 0);
    CHECK(pthread_join(thread, &result) == 0);
    CHECK(result == PTHREAD_CANCELED);
}

// Where a callback of the program, or OpenSSL, writes into a file.
static void point(void) {
    if (is_to_be_cancelled)
        pthread_testcancel();
}

static void log_that_ends(P connection, const char *line) {
    (void)connection, (void)line;
    point();
}

static void made_that_ends(P parent, P data, P all, int index, long number, P argument) {
    (void)parent, (void)data, (void)all, (void)index, (void)number, (void)argument;
    point();
}

static pthread_t busy;
static pthread_barrier_t turn;

static P handshakes_during_load(P unused) {
    (void)unused;
    // OpenSSL is found then.
    handshake();
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    handshake();
    return NULL;
}

// The object's constructor calls this, while the linker is locked: a thread that asks the linker waits for ever.
void during_load(void) {
    pthread_barrier_wait(&turn);
    CHECK(pthread_join(busy, NULL) == 0);
}

static P allocate(size_t size, const char *file, int line) {
    (void)file, (void)line;
    allocations += is_counted;
    return malloc(size);
}

static P reallocate(P block, size_t size, const char *file, int line) {
    (void)file, (void)line;
    allocations += is_counted;
    return realloc(block, size);
}

static void release(P block, const char *file, int line) {
    (void)file, (void)line;
    free(block);
}

int main(int count, char **words) {
    CHECK(count == 5);
    load();
    const char *probe = words[1];
    int counts = strcmp(probe, "late_key_log") == 0;
    CHECK(!counts || CRYPTO_set_mem_functions(allocate, reallocate, release) == 1);
    client_context = context(TLS_client_method(), words + 2);
    server_context = context(TLS_server_method(), words + 2);
    if (strcmp(probe, "cancelled") == 0) {
        // In the work of the library that is loaded with it, which goes on.
        run_cancelled();
    } else if (strcmp(probe, "cancelled_in_its_key_log") == 0) {
        SSL_CTX_set_keylog_callback(client_context, log_that_ends);
        run_cancelled();
        CHECK(!came_through);
    } else if (strcmp(probe, "cancelled_in_openssl") == 0) {
        // 0: CRYPTO_EX_INDEX_SSL. Called by SSL_new.
        CHECK(CRYPTO_get_ex_new_index(0, 0, NULL, made_that_ends, NULL, NULL) >= 0);
        run_cancelled();
        CHECK(!came_through);
    } else if (strcmp(probe, "linker_is_locked") == 0) {
        alarm(60);
        CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
        CHECK(pthread_create(&busy, NULL, handshakes_during_load, NULL) == 0);
        pthread_barrier_wait(&turn);
        CHECK(dlopen(words[4], RTLD_NOW));
    } else if (counts) {
        // A key log that is set while other threads are in their handshakes: nothing that these read is moved.
        handshake();
        is_counted = 1;
        SSL_CTX_set_keylog_callback(client_context, log_that_ends);
        is_counted = 0;
        CHECK(allocations == 0);
    } else {
        CHECK(!"a probe");
    }
    puts("done");
    return 0;
}
#endif
