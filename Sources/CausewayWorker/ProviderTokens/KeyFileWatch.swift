import APNs
import Logging

/// Looks for key files that were replaced, and offers what they hold to those who sign. That a new key is tried first, and taken only
/// when APNs accepts it, is ``ProviderTokenSource``'s; this says aloud what has become of it.
struct KeyFileWatch {
    /// Between two looks: Kubernetes itself takes about a minute to bring a changed secret to its file.
    static let interval = Duration.seconds(2)

    private struct Entry {
        var key: AppKey
        var file: SigningKeyFile
        var source: ProviderTokenSource
        var isOnTrial = false
    }

    private var entries: [Entry]
    private let logger: Logger

    /// - Parameter sources: by the key that each was made with.
    init(_ sources: [AppKey: ProviderTokenSource], logger: Logger) {
        entries = sources.map { Entry(key: $0.key, file: SigningKeyFile(path: $0.key.file), source: $0.value) }
        self.logger = logger
    }

    /// Looks until its task is cancelled.
    mutating func run() async {
        while !Task.isCancelled {
            poll()
            try? await Task.sleep(for: Self.interval)
        }
    }

    mutating func poll() {
        for position in entries.indices {
            followTrial(&entries[position])
            switch entries[position].file.poll() {
            case .unchanged: break
            case .broken(let error): refuse(entries[position].key, "\(error)")
            case .replaced(let key): offer(key, to: &entries[position])
            }
        }
    }

    private func offer(_ key: SigningKey, to entry: inout Entry) {
        do {
            let identifier = try entry.key.identifier()
            try entry.source.offer(key, keyIdentifier: identifier)
            entry.isOnTrial = true
            logger.notice(
                "a key file was replaced: one push tries the new key, which takes the old one's place if APNs accepts it",
                metadata: ["file": "\(entry.key.file)", "keyId": "\(identifier)"]
            )
        } catch {
            refuse(entry.key, "\(error)")
        }
    }

    private func followTrial(_ entry: inout Entry) {
        guard entry.isOnTrial else { return }
        let status = entry.source.keyStatus
        guard status.candidateIdentifier == nil else { return }
        entry.isOnTrial = false
        if let refusal = status.refusal {
            refuse(entry.key, "APNs refuses it: \(refusal)")
        } else {
            logger.notice(
                "APNs accepts the new key, which is now in use",
                metadata: ["file": "\(entry.key.file)", "keyId": "\(status.keyIdentifier)"]
            )
        }
    }

    private func refuse(_ key: AppKey, _ reason: String) {
        logger.critical(
            "a key file was replaced by what cannot be used: the old key stays in use until the next restart",
            metadata: ["file": "\(key.file)", "reason": "\(reason)"]
        )
    }
}
