import CausewayConfiguration
import Glibc
import Logging
import Observability

/// Where a worker's configuration came from, so that the worker can read it again.
package struct ConfigurationSource: Sendable {
    package var loader: ConfigurationLoader
    /// The configuration file; nil if the whole configuration comes from environment variables, which do not change.
    package var path: String?
    /// The lowest level of the log lines that the worker writes. A reload may change this level.
    package var logThreshold: LogThreshold

    package init(loader: ConfigurationLoader, path: String?, logThreshold: LogThreshold) {
        self.loader = loader
        self.path = path
        self.logThreshold = logThreshold
    }
}

/// Reads the configuration again on request or when its file has changed. Applies the keys that a running
/// worker can change.
///
/// If the configuration has any fault, none of it is applied.
actor ConfigurationReloader {
    /// The time between two polls of the file. A changed file is read only when two polls in a row find it in the same
    /// state, because the first of these polls may find a half-written file.
    static let pollInterval = Duration.seconds(1)

    private let source: ConfigurationSource
    private var runningConfiguration: WorkerConfiguration
    private let log: SharedLimitedLog
    /// Gives the new settings, and the contracts of the apps, to the lanes.
    private let applyToLanes: @Sendable (WorkerConfiguration) -> Void
    private var fileStateAtLastRead: FileState?
    private var fileStateAtLastPoll: FileState?

    init(
        _ source: ConfigurationSource,
        running: WorkerConfiguration,
        log: SharedLimitedLog,
        applyToLanes: @escaping @Sendable (WorkerConfiguration) -> Void
    ) {
        self.source = source
        runningConfiguration = running
        self.log = log
        self.applyToLanes = applyToLanes
        fileStateAtLastRead = source.path.flatMap(FileState.init)
        fileStateAtLastPoll = fileStateAtLastRead
    }

    /// Watches the file until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.pollInterval)
            readIfChanged()
        }
    }

    /// Reads the file if it has changed, and if the last two polls have found it in the same state.
    private func readIfChanged() {
        let state = source.path.flatMap(FileState.init)
        defer { fileStateAtLastPoll = state }
        guard state != nil, state == fileStateAtLastPoll, state != fileStateAtLastRead else { return }
        reload()
    }

    func reload() {
        fileStateAtLastRead = source.path.flatMap(FileState.init)
        let newConfiguration: WorkerConfiguration
        do {
            newConfiguration = try source.loader.load(path: source.path)
        } catch {
            return log(
                .configurationRejected,
                ["errors": "\(error.faults.map(\.description).joined(separator: "; "))"]
            )
        }
        // The loader does not read the apps' files of shapes, so a fault in one of these files shows only here.
        do throws(ShapesFileError) {
            for app in newConfiguration.apps { _ = try app.readContractRule() }
        } catch {
            return log(.configurationRejected, ["errors": "\(error)"])
        }
        let change = ConfigurationChange(from: runningConfiguration, to: newConfiguration)
        runningConfiguration = change.configuration
        source.logThreshold.level = runningConfiguration.log.level
        // Apply the configuration even if no key has changed: a file of shapes may have changed.
        if !change.appliedKeys.isEmpty || runningConfiguration.apps.contains(where: { $0.shapes.file != nil }) {
            applyToLanes(runningConfiguration)
        }
        if !change.keysNeedingRestart.isEmpty {
            log(.configurationNeedsRestart, ["keys": "\(change.keysNeedingRestart.joined(separator: ", "))"])
        }
        log(
            .configurationReloaded,
            ["changed": "\(change.appliedKeys.isEmpty ? "nothing" : change.appliedKeys.joined(separator: ", "))"]
        )
    }
}

/// The properties that distinguish two states of a file. Kubernetes updates a ConfigMap by replacing its file with
/// another file, which has another inode.
private struct FileState: Equatable {
    var device: UInt64
    var inode: UInt64
    var sizeBytes: Int64
    var modifiedAtSeconds: Int
    var modifiedAtNanoseconds: Int

    /// Reads the state of a file; nil if there is no file, or if the process is not allowed to see it.
    init?(path: String) {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        device = UInt64(status.st_dev)
        inode = UInt64(status.st_ino)
        sizeBytes = Int64(status.st_size)
        modifiedAtSeconds = status.st_mtim.tv_sec
        modifiedAtNanoseconds = status.st_mtim.tv_nsec
    }
}
