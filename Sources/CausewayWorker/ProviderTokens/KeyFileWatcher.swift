import APNs
import CausewayConfiguration
import Logging
import Observability

/// Watches the key files, and the `.id` files beside them. When a file is replaced, offers the new key to the
/// ``ProviderTokenSource`` that signs with the old one.
///
/// The source first tries the new key, and uses it only if APNs accepts it. This type logs the result.
struct KeyFileWatcher {
    /// The time between two polls. A shorter time would not help, because Kubernetes itself takes about a minute to
    /// write a changed secret to its file.
    static let pollInterval = Duration.seconds(2)

    private struct WatchedKey {
        var key: ConfiguredSigningKey
        var file: SigningKeyFile
        var source: ProviderTokenSource
        /// The apps that the key signs for, by their indices in the metrics.
        var appIndices: Set<Int>
        /// The key's id when the key was last offered to `source`, or found unusable; nil if no id could be read.
        var lastTriedIdentifier: String?
        /// The key's id that the last poll read; nil if no id could be read.
        var identifierAtLastPoll: String?
        /// Whether the key file or its `.id` file is missing or cannot be used. Even then, `source` may still be trying
        /// a key that was read before (`isOnTrial`).
        var areFilesUnusable = false
        /// Whether `source` is trying the last offered key: APNs has neither accepted nor refused this key yet.
        var isOnTrial = false
        /// Whether the newest key in the file cannot be used, so that the previous key stays in use.
        var isRejected = false
    }

    private var watchedKeys: [WatchedKey]
    private let metricRegistry: MetricRegistry
    private let log: SharedLimitedLog

    /// - Parameter sources: the source of provider tokens for each configured key.
    init(
        _ sources: [ConfiguredSigningKey: ProviderTokenSource],
        apps: [WorkerConfiguration.App],
        metricRegistry: MetricRegistry,
        log: SharedLimitedLog
    ) {
        watchedKeys = sources.map { key, source in
            let indicesOfAppsWithKey = apps.indices.filter { app in
                apps[app].environments.contains { apps[app].signingKey(for: $0) == key }
            }
            let file = SigningKeyFile(path: key.file, loadedKey: source.signingKey)
            return WatchedKey(
                key: key,
                file: file,
                source: source,
                appIndices: Set(indicesOfAppsWithKey),
                lastTriedIdentifier: source.keyStatus.keyId,
                identifierAtLastPoll: source.keyStatus.keyId
            )
        }
        self.metricRegistry = metricRegistry
        self.log = log
    }

    /// Checks the files once every `pollInterval`, until the task is cancelled.
    mutating func run() async {
        while !Task.isCancelled {
            poll()
            try? await Task.sleep(for: Self.pollInterval)
        }
    }

    mutating func poll() {
        for index in watchedKeys.indices {
            endTrialIfDecided(&watchedKeys[index])
            let identifier = try? watchedKeys[index].key.readIdentifier()
            switch watchedKeys[index].file.poll() {
            case .unchanged: offerKeyAgainIfIdentifierChanged(identifier, &watchedKeys[index])
            case .unusable(let error):
                watchedKeys[index].lastTriedIdentifier = identifier
                reportUnusableFiles(&watchedKeys[index], "\(error)")
            case .replaced(let key): offer(key, to: &watchedKeys[index])
            }
            watchedKeys[index].identifierAtLastPoll = identifier
        }
        publishRejectedKeys()
    }

    /// Publishes which apps have a rejected key, if this has changed. An app may have two keys, one for each
    /// environment.
    private func publishRejectedKeys() {
        let apps = watchedKeys.reduce(into: Set<Int>()) { if $1.isRejected { $0.formUnion($1.appIndices) } }
        guard apps != metricRegistry.condition.current.appIndicesWithRejectedKey else { return }
        metricRegistry.condition.change { $0.appIndicesWithRejectedKey = apps }
    }

    /// Offers a key that was read from the key file to the key's source. If the source already has this key and no
    /// other, only reports that the key is in use. If the key's id cannot be read, or the source does not take the key,
    /// reports that the files cannot be used.
    private func offer(_ key: SigningKey, to watchedKey: inout WatchedKey) {
        watchedKey.lastTriedIdentifier = nil
        do {
            let identifier = try watchedKey.key.readIdentifier()
            watchedKey.lastTriedIdentifier = identifier
            // The source may already sign with this key. For example, the file was missing for a while, or it had
            // another key for a while, and APNs refused that key. Then this key needs no trial.
            guard !watchedKey.source.holdsOnly(key, keyId: identifier) else {
                watchedKey.areFilesUnusable = false
                watchedKey.isOnTrial = false
                return reportLoadedKey(&watchedKey)
            }
            try watchedKey.source.offer(key, keyId: identifier)
            watchedKey.areFilesUnusable = false
            watchedKey.isOnTrial = true
            log(.keyOffered, ["file": "\(watchedKey.key.file)", "keyId": "\(identifier)"])
        } catch {
            reportUnusableFiles(&watchedKey, "\(error)")
        }
    }

    /// Offers the key to its source again if only the key's id has changed: the `.id` file was wrong and has been
    /// repaired, or was replaced later than the key file. Waits until two polls have read the new id. The key file may
    /// be replaced just after the `.id` file, and the source must not try the old key under the new id.
    private func offerKeyAgainIfIdentifierChanged(_ identifier: String?, _ watchedKey: inout WatchedKey) {
        guard identifier != watchedKey.lastTriedIdentifier, identifier == watchedKey.identifierAtLastPoll else {
            return
        }
        do {
            offer(try SigningKey(path: watchedKey.key.file), to: &watchedKey)
        } catch {
            // The next poll reads the file again, because `lastTriedIdentifier` is unchanged. So report the fault only
            // once.
            if !watchedKey.areFilesUnusable { reportUnusableFiles(&watchedKey, "\(error)") }
        }
    }

    /// If APNs has accepted or refused the offered key, ends its trial and reports the result.
    private func endTrialIfDecided(_ watchedKey: inout WatchedKey) {
        guard watchedKey.isOnTrial else { return }
        let status = watchedKey.source.keyStatus
        guard status.candidateKeyId == nil else { return }
        watchedKey.isOnTrial = false
        if let refusal = status.candidateRefusalReason {
            reportRejectedKey(&watchedKey, "APNs refuses it: \(refusal)")
        } else {
            reportLoadedKey(&watchedKey)
        }
    }

    private func reportLoadedKey(_ watchedKey: inout WatchedKey) {
        // If the files have become unusable since the key was read, the key's apps still count as apps with a rejected
        // key: a worker that starts now could not read the key.
        watchedKey.isRejected = watchedKey.areFilesUnusable
        log(.keyLoaded, ["file": "\(watchedKey.key.file)", "keyId": "\(watchedKey.source.keyStatus.keyId)"])
    }

    private func reportUnusableFiles(_ watchedKey: inout WatchedKey, _ reason: String) {
        watchedKey.areFilesUnusable = true
        reportRejectedKey(&watchedKey, reason)
    }

    private func reportRejectedKey(_ watchedKey: inout WatchedKey, _ reason: String) {
        watchedKey.isRejected = true
        log(.keyRejected, ["file": "\(watchedKey.key.file)", "error": "\(reason)"])
    }
}
