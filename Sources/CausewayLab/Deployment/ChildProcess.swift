import CLinux
import CausewayCommandLine
import Glibc
import Reactor
import Synchronization

/// A child process that must not outlive this program.
///
/// `setpriv` of util-linux, which every Debian has, starts the child. `setpriv` makes the kernel kill the child when
/// the thread that started the child ends. So this thread must live as long as the child is needed.
///
/// A child has its own process group, so Ctrl-C reaches only the parent. The parent then ends its children.
final class ChildProcess {
    enum ExitStatus: Equatable {
        case exited(Int32)
        case killed(signal: Int32)

        var eventText: String {
            switch self {
            case .exited(let code): "exited with code \(code)"
            case .killed(let signal): "was killed by signal \(signal)"
            }
        }
    }

    /// Where a child's standard output goes. Its standard error always goes to the log file.
    enum StandardOutput {
        case log, pipe
        case file(String)
    }

    static let launcherPath = "/usr/bin/setpriv"
    static let logTailLineCount = 20
    private static let spawnLock = Mutex(())

    /// The child's name in messages.
    let name: String
    let processIdentifier: pid_t
    /// The file for the child's standard error and, with `StandardOutput.log`, for its standard output.
    let logFile: String
    /// The read end of the pipe for the child's standard output; -1 without a pipe.
    private let outputDescriptor: Int32
    private(set) var exitStatus: ExitStatus?

    /// - Parameter variables: the child's environment, as `NAME=value`. Variables with the prefix `CAUSEWAY_` are
    ///   removed, because they would configure a worker.
    init(
        name: String,
        command: [String],
        logFile: String,
        output destination: StandardOutput = .log,
        variables: [String] = ChildProcess.parentEnvironmentVariables
    ) throws(LabError) {
        guard access(Self.launcherPath, X_OK) == 0 else {
            throw LabError("\(Self.launcherPath) is missing: install util-linux")
        }
        let log = try Self.openForAppending(logFile)
        defer { close(log) }
        var file: Int32 = -1
        if case .file(let path) = destination { file = try Self.openForAppending(path) }
        defer { if file >= 0 { close(file) } }
        let arguments = [Self.launcherPath, "--pdeathsig", "KILL", "--"] + command
        // Start one child at a time. Otherwise a child that another thread starts could inherit the new pipe before
        // FD_CLOEXEC is set for this pipe.
        let spawnResult = Self.spawnLock.withLock { _ in
            Result { () throws(LabError) in
                var pipeEnds: [Int32] = [-1, -1]
                if case .pipe = destination {
                    guard pipe(&pipeEnds) == 0 else { throw LabError("pipe", errno: errno) }
                    for end in pipeEnds { _ = fcntl(end, F_SETFD, FD_CLOEXEC) }
                }
                defer { if pipeEnds[1] >= 0 { close(pipeEnds[1]) } }
                let output = pipeEnds[1] >= 0 ? pipeEnds[1] : file >= 0 ? file : log
                return (try Self.spawn(arguments, variables, output: output, error: log), pipeEnds[0])
            }
        }
        (processIdentifier, outputDescriptor) = try spawnResult.get()
        self.name = name
        self.logFile = logFile
    }

    deinit {
        if outputDescriptor >= 0 { close(outputDescriptor) }
    }

    private static func openForAppending(_ path: String) throws(LabError) -> Int32 {
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw LabError(path, errno: errno) }
        return descriptor
    }

    private static func spawn(
        _ arguments: [String],
        _ variables: [String],
        output: Int32,
        error: Int32
    ) throws(LabError) -> pid_t {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO)
        posix_spawn_file_actions_adddup2(&actions, error, STDERR_FILENO)
        // Close all other descriptors in the child. If the child inherited the end of another pipe, the reader of that
        // pipe would wait until this child ends.
        CLinux_posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1)

        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        // The parent has blocked and ignored some signals. A child would inherit this, so reset all signals.
        var noSignals = sigset_t()
        sigemptyset(&noSignals)
        posix_spawnattr_setsigmask(&attributes, &noSignals)
        var allSignals = sigset_t()
        sigfillset(&allSignals)
        posix_spawnattr_setsigdefault(&attributes, &allSignals)
        let flags = POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF
        posix_spawnattr_setflags(&attributes, Int16(flags))

        var argumentPointers: [UnsafeMutablePointer<CChar>?] = arguments.map { strdup($0) } + [nil]
        defer { for pointer in argumentPointers { free(pointer) } }
        var processIdentifier: pid_t = 0
        let passedVariables = variables.filter { !$0.hasPrefix("CAUSEWAY_") }
        var environment: [UnsafeMutablePointer<CChar>?] = passedVariables.map { strdup($0) } + [nil]
        defer { for variable in environment { free(variable) } }
        var code: Int32 = 0
        ProcessStartLock.runExclusively {
            code = posix_spawn(&processIdentifier, launcherPath, &actions, &attributes, &argumentPointers, &environment)
        }
        guard code == 0 else { throw LabError(arguments.joined(separator: " "), errno: code) }
        return processIdentifier
    }

    static var parentEnvironmentVariables: [String] {
        var variables: [String] = []
        var next = environ
        while let variable = next.pointee {
            variables.append(String(cString: variable))
            next += 1
        }
        return variables
    }

    /// Returns how the child ended; nil if it still runs. Does not wait.
    func poll() -> ExitStatus? {
        if exitStatus == nil { reap(options: WNOHANG) }
        return exitStatus
    }

    func signal(_ number: Int32) {
        // Do not signal a reaped child, because another process may have its id.
        if exitStatus == nil { kill(processIdentifier, number) }
    }

    /// Waits until the child ends. Returns nil if the child still runs after `timeoutMilliseconds`.
    func wait(timeoutMilliseconds: Int64) -> ExitStatus? {
        let deadlineMilliseconds = Clock.monotonicMilliseconds + timeoutMilliseconds
        while poll() == nil, Clock.monotonicMilliseconds < deadlineMilliseconds { usleep(2_000) }
        return exitStatus
    }

    /// Asks the child to end, and kills it if it still runs after the grace time.
    func stop(graceMilliseconds: Int64) {
        guard poll() == nil else { return }
        signal(SIGTERM)
        if wait(timeoutMilliseconds: graceMilliseconds) == nil {
            signal(SIGKILL)
            reap(options: 0)
        }
    }

    /// Notes the exit status if the child has ended. With the options 0, first waits until the child ends.
    private func reap(options: Int32) {
        var status: Int32 = 0
        var result: pid_t
        // Repeat a call that a signal such as Ctrl-C has interrupted. Otherwise an ended child would count as running.
        repeat { result = waitpid(processIdentifier, &status, options) } while result < 0 && errno == EINTR
        guard result == processIdentifier else { return }
        let signal = status & 0x7F
        exitStatus = signal == 0 ? .exited((status >> 8) & 0xFF) : .killed(signal: signal)
    }

    /// Returns the first line that the child prints. The lab's servers report their ports in this line. Throws an error
    /// if the line does not come in time.
    func readFirstLine(timeoutMilliseconds: Int64) throws(LabError) -> String {
        precondition(outputDescriptor >= 0, "only a piped output can be read")
        let deadlineMilliseconds = Clock.monotonicMilliseconds + timeoutMilliseconds
        var line: [UInt8] = []
        while line.count < 65_536 {
            var pollEntry = pollfd(fd: outputDescriptor, events: Int16(POLLIN), revents: 0)
            let remainingMilliseconds = deadlineMilliseconds - Clock.monotonicMilliseconds
            guard remainingMilliseconds > 0 else { throw makeError("printed nothing in time") }
            guard Glibc.poll(&pollEntry, 1, Int32(clamping: remainingMilliseconds)) > 0 else { continue }
            var byte: UInt8 = 0
            switch read(outputDescriptor, &byte, 1) {
            case 1 where byte == UInt8(ascii: "\n"): return String(decoding: line, as: UTF8.self)
            case 1: line.append(byte)
            case 0:
                _ = wait(timeoutMilliseconds: 10_000)
                throw makeError(exitStatus?.eventText ?? "closed its output")
            default: if errno != EINTR { throw LabError("read", errno: errno) }
            }
        }
        throw makeError("printed a line that is too long")
    }

    /// Makes the error for a failed child, with the end of its log.
    func makeError(_ event: String) -> LabError {
        LabError(
            "the \(name) \(event); its log ends with",
            logTail: TextFile.readLastLines(of: logFile, Self.logTailLineCount)
        )
    }
}
