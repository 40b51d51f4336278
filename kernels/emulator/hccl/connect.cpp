// Joins the ranks of a communicator: a rank connects to the lower ones and accepts the higher ones,
// all say who they are, and each checks all.
#include "exchange.h"
#include "names.h"

#include <cstdio>
#include <map>

namespace emu::hccl {
namespace {

constexpr uint32_t kHelloMagic = 0x48434c31;
constexpr auto kRetry = std::chrono::milliseconds(5);

enum class Role : uint32_t { data = 0, control = 1 };

// The first bytes of every connection, from both ends of a data connection.
struct Hello {
  uint32_t magic = kHelloMagic;
  Role role = Role::data;
  uint32_t rank = 0;
  uint32_t size = 0;
  int32_t device = -1;
  int32_t host = 0;
};

class SetUp {
 public:
  explicit SetUp(Communicator& communicator)
      : communicator_(communicator),
        who_(communicator.identity()),
        deadline_(Deadline::after(who_.connect_timeout)),
        hellos_(who_.size) {}

  void run() {
    try {
      join();
    } catch (const Error&) {
      turn_away();
      throw;
    }
  }

 private:
  static constexpr const char* kDuring = "communicator set-up";

  void join() {
    listener_ = listen_at(address(who_.rank), static_cast<int>(2 * who_.size));
    for (uint32_t peer = 0; peer < who_.rank; ++peer) connect(peer);
    accept_higher();
    for (uint32_t peer = who_.rank + 1; peer < who_.size; ++peer) {
      greet(communicator_.link(peer).data, Role::data);
    }
    for (uint32_t peer = 0; peer < who_.rank; ++peer) {
      hellos_[peer] = read_hello(communicator_.link(peer).data, rank_name(peer));
    }
    hellos_[who_.rank] = own_hello(Role::data);
    // Only now: a rank that left sooner would be one that the others wait for.
    check_sizes();
    check_devices();
    Exchange ready(communicator_, Call{.op = HCCL_CMD_INIT}, Takes::everyone, kDuring);
    ready.run(who_.connect_timeout, "HCCL_CONNECT_TIMEOUT");
  }

  // Ranks that this one did not expect learn whom they met.
  void turn_away() {
    for (Socket socket; listener_.open() && (socket = accept_from(listener_)).open();) {
      greet(socket, Role::data);
    }
  }

  std::string address(uint32_t rank) const {
    char name[64];
    std::snprintf(name, sizeof name, "emulated-hccl-%016llx-%u",
                  static_cast<unsigned long long>(digest(who_.id)), rank);
    return name;
  }

  [[noreturn]] void timed_out(const std::string& ranks) const {
    throw Error(HCCL_E_TIMEOUT, ranks + " did not join communicator " + who_.name + " within " +
                                    std::to_string(who_.connect_timeout.count()) +
                                    " s (HCCL_CONNECT_TIMEOUT)");
  }

  // Waits for one descriptor, or for a time if there is none; false when the time is over.
  bool wait(const Socket& socket, short events, Deadline deadline) {
    std::vector<pollfd> fds = {{socket.fd(), events, 0}};
    communicator_.wait(fds, deadline, kDuring);
    return fds[0].revents != 0;
  }

  void connect(uint32_t peer) {
    Link& link = communicator_.link(peer);
    for (Role role : {Role::data, Role::control}) {
      Socket socket = connect_to(address(peer));
      while (!socket.open()) {  // that rank may come later
        if (deadline_.passed()) timed_out(rank_name(peer));
        wait({}, 0, deadline_.capped(Clock::now() + kRetry));
        socket = connect_to(address(peer));
      }
      greet(socket, role);
      (role == Role::data ? link.data : link.control) = std::move(socket);
    }
  }

  Hello own_hello(Role role) const {
    return {kHelloMagic, role, who_.rank, who_.size, who_.device, who_.host};
  }

  void greet(const Socket& socket, Role role) {
    const Hello hello = own_hello(role);
    send_some(socket, &hello, sizeof hello);  // a new connection has room for it
  }

  Hello read_hello(const Socket& socket, const std::string& from) {
    Hello hello;
    uint64_t done = 0;
    while (done < sizeof hello) {
      const Moved moved =
          receive_some(socket, reinterpret_cast<char*>(&hello) + done, sizeof hello - done);
      done += moved.bytes;
      if (moved.gone) throw Error(HCCL_E_REMOTE, from + " ended during " + kDuring);
      if (done < sizeof hello && !wait(socket, POLLIN, deadline_) && deadline_.passed()) {
        timed_out(from);
      }
    }
    return hello;
  }

  void accept_higher() {
    while (missing() != "") {
      Socket socket = accept_from(listener_);
      if (!socket.open()) {
        if (!wait(listener_, POLLIN, deadline_) && deadline_.passed()) timed_out(missing());
        continue;
      }
      const Hello hello = read_hello(socket, "a connecting rank");
      if (hello.magic != kHelloMagic || hello.rank <= who_.rank || hello.rank >= who_.size) {
        throw Error(HCCL_E_PARA, "rank " + std::to_string(hello.rank) + " joined rank " +
                                     std::to_string(who_.rank) + " of " +
                                     std::to_string(who_.size));
      }
      hellos_[hello.rank] = hello;
      Link& link = communicator_.link(hello.rank);
      (hello.role == Role::data ? link.data : link.control) = std::move(socket);
    }
  }

  std::string missing() {
    std::string ranks;
    for (uint32_t peer = who_.rank + 1; peer < who_.size; ++peer) {
      const Link& link = communicator_.link(peer);
      if (link.data.open() && link.control.open()) continue;
      ranks += (ranks.empty() ? "rank " : ", ") + std::to_string(peer);
    }
    return ranks;
  }

  void check_sizes() const {
    for (const Hello& hello : hellos_) {
      if (hello.size == hellos_[0].size) continue;
      throw Error(HCCL_E_PARA, "rank 0 gave nRanks " + std::to_string(hellos_[0].size) + ", " +
                                   rank_name(hello.rank) + " gave " + std::to_string(hello.size));
    }
  }

  void check_devices() const {
    std::map<std::pair<int32_t, int32_t>, uint32_t> users;
    for (const Hello& hello : hellos_) {
      const auto [user, is_new] =
          users.emplace(std::pair(hello.host, hello.device), hello.rank);
      if (is_new) continue;
      throw Error(HCCL_E_PARA, "EI0015: ranks " + std::to_string(user->second) + " and " +
                                   std::to_string(hello.rank) + " both use device " +
                                   std::to_string(hello.device) +
                                   ": call set_device before the first tensor");
    }
  }

  Communicator& communicator_;
  const Identity& who_;
  const Deadline deadline_;
  std::vector<Hello> hellos_;  // by rank
  Socket listener_;
};

}  // namespace

std::shared_ptr<Communicator> set_up(Identity identity) {
  auto communicator = std::make_shared<Communicator>(std::move(identity));
  if (communicator->size() > 1) {
    communicator->perform([&] { SetUp(*communicator).run(); });
  }
  return communicator;
}

}  // namespace emu::hccl
