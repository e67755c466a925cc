import Glibc
import Synchronization

/// Why a look-up gave no address.
public struct ResolveError: Error, Sendable, Equatable, CustomStringConvertible {
    public enum Code: Sendable, Equatable {
        /// `getaddrinfo` failed, with its EAI code.
        case lookUpFailed(Int32)
        /// The host has no IPv4 or IPv6 address.
        case noAddress
        /// `EventLoop.lookupsMax` look-ups are running already.
        case tooManyLookups
        /// The system refused a thread or a descriptor for the look-up, with its errno.
        case systemCallFailed(Int32)
    }

    public var code: Code
    public var reason: String

    /// Whether a retry may succeed. If false, someone must first correct the name or the DNS zone.
    public var isRetriable: Bool {
        switch code {
        case .lookUpFailed(let code): code == EAI_AGAIN || code == EAI_SYSTEM || code == EAI_MEMORY
        case .noAddress: false
        case .tooManyLookups, .systemCallFailed: true
        }
    }

    public var description: String { reason }

    init(code: Code, reason: String) {
        self.code = code
        self.reason = reason
    }

    init(systemError: SystemError) {
        self.init(code: .systemCallFailed(systemError.code), reason: systemError.description)
    }
}

typealias Resolution = Result<[SocketAddress], ResolveError>

/// The look-ups of one loop. `getaddrinfo` blocks, so each look-up runs on its own short-lived thread, which posts the
/// result to the loop's `ResolverMailbox`. The thread keeps only the mailbox alive: if the loop is released first,
/// nobody takes the result.
final class Resolver: DescriptorHandler {
    /// Looks up a name, and blocks until the result is known.
    typealias HostLookup = @Sendable (_ host: String, _ port: UInt16) -> Resolution

    private let mailbox: ResolverMailbox
    private let hostLookup: HostLookup
    private var completions: [UInt64: (Resolution) -> Void] = [:]
    private var nextIdentifier: UInt64 = 0

    init(loop: EventLoop, hostLookup: @escaping HostLookup) throws(SystemError) {
        self.hostLookup = hostLookup
        mailbox = ResolverMailbox(wakeup: try Wakeup())
        try loop.add(descriptor: mailbox.wakeup.descriptor, interest: .readable, handler: self)
    }

    /// Resolves a host, and calls `completion` on the loop's thread, never inside this call.
    func resolve(host: String, port: UInt16, completion: @escaping (Resolution) -> Void) {
        let identifier = nextIdentifier
        nextIdentifier += 1
        let isFull = completions.count >= EventLoop.lookupsMax
        completions[identifier] = completion
        if let address = SocketAddress(numeric: host, port: port) {
            mailbox.post(.success([address]), for: identifier)
        } else if isFull {
            let reason = "\(host): more than \(EventLoop.lookupsMax) look-ups at once"
            mailbox.post(.failure(ResolveError(code: .tooManyLookups, reason: reason)), for: identifier)
        } else {
            startLookUpThread(host: host, port: port, identifier: identifier)
        }
    }

    private func startLookUpThread(host: String, port: UInt16, identifier: UInt64) {
        let (mailbox, hostLookup) = (mailbox, hostLookup)
        var thread = pthread_t()
        let result = Reactor.startThread(&thread, attributes: nil) {
            mailbox.post(hostLookup(host, port), for: identifier)
        }
        guard result == 0 else {
            let error = SystemError(code: result, operation: "pthread_create")
            mailbox.post(.failure(ResolveError(systemError: error)), for: identifier)
            return
        }
        _ = pthread_detach(thread)
    }

    func descriptorReady(_ events: DescriptorEvents) {
        mailbox.wakeup.reset()
        for posted in mailbox.takePostedResolutions() {
            guard let completion = completions.removeValue(forKey: posted.identifier) else { continue }
            completion(posted.resolution)
        }
    }
}

/// The results of look-ups that wait until the loop takes them; at most one for each call of `resolve`.
private final class ResolverMailbox: Sendable {
    struct PostedResolution {
        var identifier: UInt64
        var resolution: Resolution
    }

    let wakeup: Wakeup
    private let postedResolutions = Mutex<[PostedResolution]>([])

    init(wakeup: Wakeup) {
        self.wakeup = wakeup
    }

    func post(_ resolution: Resolution, for identifier: UInt64) {
        postedResolutions.withLock { $0.append(PostedResolution(identifier: identifier, resolution: resolution)) }
        wakeup.signal()
    }

    func takePostedResolutions() -> [PostedResolution] {
        postedResolutions.withLock { postedResolutions in
            let taken = postedResolutions
            postedResolutions = []
            return taken
        }
    }
}

/// Reports that a look-up could not be started. The report comes at the end of the iteration, because `resolve` must
/// not call the completion before it returns.
final class FailedResolution: IterationEndHandler {
    private let error: ResolveError
    private let completion: (Resolution) -> Void

    init(error: ResolveError, completion: @escaping (Resolution) -> Void) {
        self.error = error
        self.completion = completion
    }

    func iterationEnded() {
        completion(.failure(error))
    }
}

/// Resolves a name with `getaddrinfo`, which uses the sources that the system configures, such as the hosts
/// file and DNS.
@Sendable func lookUpWithSystem(host: String, port: UInt16) -> Resolution {
    var hints = addrinfo()
    hints.ai_family = AF_UNSPEC
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var first: UnsafeMutablePointer<addrinfo>?
    let result = getaddrinfo(host, nil, &hints, &first)
    guard result == 0 else {
        let detail = result == EAI_SYSTEM ? systemErrorText(errno) : String(cString: gai_strerror(result))
        return .failure(ResolveError(code: .lookUpFailed(result), reason: "\(host): \(detail)"))
    }
    defer { freeaddrinfo(first) }
    var addresses: [SocketAddress] = []
    var next = first
    while let entry = next {
        if let raw = entry.pointee.ai_addr,
            let address = SocketAddress(raw, length: entry.pointee.ai_addrlen)?.with(port: port),
            !addresses.contains(address)
        {
            addresses.append(address)
        }
        next = entry.pointee.ai_next
    }
    guard !addresses.isEmpty else {
        return .failure(ResolveError(code: .noAddress, reason: "\(host): no address"))
    }
    return .success(addresses)
}
