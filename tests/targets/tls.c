/* tls N: a client and a server of TLS in one process shake hands over a pair of buffers, and exchange N messages of 16
 * bytes. Prints how often SSL_do_handshake, SSL_write and SSL_read succeeded, and how often they failed. It loads the
 * library itself, so that none of its headers are needed. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static long succeeded[3], failed[3];

static int note(int which, int result) {
  ++*(result > 0 ? &succeeded[which] : &failed[which]);
  return result;
}

#define FROM(library, type, name, ...) type (*name)(__VA_ARGS__) = (type (*)(__VA_ARGS__))dlsym(library, #name)

int main(int argc, char **argv) {
  long rounds = argc > 1 ? atol(argv[1]) : 5;
  void *ssl = dlopen("libssl.so.3", RTLD_NOW), *crypto = dlopen("libcrypto.so.3", RTLD_NOW);
  if (!ssl || !crypto)
    return 1;
  FROM(ssl, void *, TLS_method, void);
  FROM(ssl, void *, SSL_CTX_new, void *);
  FROM(ssl, long, SSL_CTX_ctrl, void *, int, long, void *);
  FROM(ssl, int, SSL_CTX_set_cipher_list, void *, const char *);
  FROM(ssl, void *, SSL_new, void *);
  FROM(ssl, void, SSL_set_bio, void *, void *, void *);
  FROM(ssl, void, SSL_set_connect_state, void *);
  FROM(ssl, void, SSL_set_accept_state, void *);
  FROM(ssl, int, SSL_do_handshake, void *);
  FROM(ssl, int, SSL_write, void *, const void *, int);
  FROM(ssl, int, SSL_read, void *, void *, int);
  FROM(crypto, int, BIO_new_bio_pair, void **, size_t, void **, size_t);

  void *context = SSL_CTX_new(TLS_method());
  SSL_CTX_ctrl(context, 124, 0x0303, NULL); /* at most TLS 1.2, which can do without certificates */
  SSL_CTX_ctrl(context, 118, 1, NULL);      /* parameters for Diffie and Hellman by itself */
  SSL_CTX_set_cipher_list(context, "ADH:@SECLEVEL=0");
  void *ends[2] = {SSL_new(context), SSL_new(context)}, *wires[2];
  BIO_new_bio_pair(&wires[0], 0, &wires[1], 0);
  for (int end = 0; end < 2; end++)
    SSL_set_bio(ends[end], wires[end], wires[end]);
  SSL_set_connect_state(ends[0]);
  SSL_set_accept_state(ends[1]);
  for (int done = 0, round = 0; done != 3 && round < 100; round++)
    for (int end = 0; end < 2; end++)
      if (!(done & 1 << end) && note(0, SSL_do_handshake(ends[end])) == 1)
        done |= 1 << end;
  for (long i = 0; i < rounds; i++) {
    char message[16] = "hello", got[64];
    note(1, SSL_write(ends[i % 2], message, sizeof message));
    note(2, SSL_read(ends[(i + 1) % 2], got, sizeof got));
    if (i % 4 == 0)
      note(2, SSL_read(ends[i % 2], got, sizeof got)); /* nothing is there */
  }
  for (int which = 0; which < 3; which++)
    printf("%ld %ld\n", succeeded[which], failed[which]);
  return 0;
}
