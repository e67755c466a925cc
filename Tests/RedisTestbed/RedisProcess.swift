import CLinux
import Glibc
import Reactor

/// A redis-server process: a single server, a cluster's node or a Sentinel. The process is killed when this
/// value is released.
public final class RedisProcess {
    public enum Failure: Error {
        /// The pipe or the process could not be made. The number is the system's error code.
        case spawn(Int32)
        /// The server ended before it was ready. The text is its output.
        case startup(String)
    }

    /// The program: redis-server, or the one that the environment names, such as valkey-server.
    public static let program = getenv("CAUSEWAY_REDIS_SERVER").map { String(cString: $0) } ?? "redis-server"

    private let arguments: [String]
    private let readyLine: String
    private var processIdentifier: pid_t = -1
    private var outputDescriptor: Int32 = -1

    /// Starts the process, and returns when it accepts connections.
    ///
    /// - Parameter readyLine: a part of the line that the process prints when all its listeners are open. The default
    ///   lacks the first letter, because a server writes "Ready" for its ports and "ready" for its Unix socket.
    public init(_ arguments: [String], readyLine: String = "eady to accept connections") throws {
        self.arguments = [Self.program] + arguments
        self.readyLine = readyLine
        try start()
    }

    deinit {
        kill()
    }

    public func start() throws {
        var pipe: [Int32] = [-1, -1]
        guard Glibc.pipe(&pipe) == 0 else { throw Failure.spawn(errno) }
        // A server of another test must not inherit this pipe's writing end. Otherwise the reading below would not
        // notice when this server ends.
        for end in pipe { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
        // After the start nobody reads the output. So the server must drop further output instead of waiting for a
        // reader.
        _ = fcntl(pipe[1], F_SETFL, O_NONBLOCK)
        var fileActions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&fileActions)
        defer { posix_spawn_file_actions_destroy(&fileActions) }
        posix_spawn_file_actions_adddup2(&fileActions, pipe[1], 1)
        posix_spawn_file_actions_adddup2(&fileActions, pipe[1], 2)
        // The child must not inherit the writing end of another test's pipe. Otherwise that pipe's reader would
        // wait until this child ends.
        CLinux_posix_spawn_file_actions_addclosefrom_np(&fileActions, STDERR_FILENO + 1)
        var pointers = arguments.map { strdup($0) } + [nil]
        defer { for pointer in pointers { free(pointer) } }
        var (status, startedIdentifier) = (Int32(0), pid_t(0))
        ProcessStartLock.runExclusively {
            status = posix_spawnp(&startedIdentifier, Self.program, &fileActions, nil, &pointers, environ)
        }
        processIdentifier = startedIdentifier
        close(pipe[1])
        outputDescriptor = pipe[0]
        guard status == 0 else {
            close(outputDescriptor)
            throw Failure.spawn(status)
        }
        var log = ""
        var buffer = [UInt8](repeating: 0, count: 4096)
        while !log.contains(readyLine) {
            let count = read(outputDescriptor, &buffer, buffer.count)
            guard count > 0 else {
                kill()
                throw Failure.startup(log)
            }
            log += String(decoding: buffer[..<count], as: UTF8.self)
        }
    }

    /// Kills the process with SIGKILL, and waits for its end.
    public func kill() {
        guard processIdentifier > 0 else { return }
        Glibc.kill(processIdentifier, SIGKILL)
        waitpid(processIdentifier, nil, 0)
        close(outputDescriptor)
        processIdentifier = -1
    }

    /// Freezes the process. Its connections stay open, but it replies to nothing.
    public func suspend() { Glibc.kill(processIdentifier, SIGSTOP) }

    public func resume() { Glibc.kill(processIdentifier, SIGCONT) }
}
