// waits reads from standard input, by a method that the compiler put into another.

#include <functional>
#include <unistd.h>

namespace net {
template <typename T> class Server {
  public:
    explicit Server(T fd) : fd_(fd) {}
    __attribute__((noinline)) int waits(const char *why);

  private:
    int inlined()
    {
        char b = 0;
        return read(fd_, &b, 1) + b; /* INLINED */
    }
    T fd_;
};
template <typename T> int Server<T>::waits(const char *why)
{
    auto again = [this, why] { return inlined() + (why == nullptr); /* LAMBDA */ };
    return again() + 1; /* WAITS */
}
} // namespace net

int main()
{
    net::Server<int> s(0);
    return s.waits("test") == 99; /* MAIN */
}
