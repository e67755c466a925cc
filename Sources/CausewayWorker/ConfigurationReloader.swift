import CausewayConfiguration
import Glibc
import LiveActivity
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

/// Reads the configuration again on request, or when its file or a file of shapes has changed or is missing. Applies
/// the keys that a running worker can change.
///
/// If the configuration has any fault, or needs more memory than the worker has, none of it is applied.
actor ConfigurationReloader {
    /// The time between two polls of the files. Changed files are read only when two polls in a row find all files in
    /// the same state, because the first of these polls may find a half-written file, or none while it is replaced.
    static let pollInterval = Duration.seconds(1)
    /// A rejected configuration is read again after this many polls, even if no polled file has changed: for example, a
    /// missing password file may now be there.
    static let pollsPerRetry = 10

    private let source: ConfigurationSource
    private var runningConfiguration: WorkerConfiguration
    /// The contract in use of each app of `runningConfiguration`; nil for an app without shapes.
    private var contracts: [ContractRule?]
    private let log: SharedLimitedLog
    /// Says in the metrics and on the status page whether the last reload was rejected.
    private let condition: SharedWorkerCondition
    /// Gives the new settings, and the contracts of the apps, to the lanes.
    private let applyToLanes: @Sendable (WorkerConfiguration, [ContractRule?]) -> Void
    /// The errors of the last rejection, and the number of polls since then; nil if the last reload was not rejected.
    private var rejection: (errors: String, laterPollCount: Int)?
    /// The files of shapes to poll: those of the last configuration that was loaded without a fault, even if one of
    /// these files then had a fault.
    private var shapesPaths: [String]
    private var fileStatesAtLastRead: WatchedFileStates
    private var fileStatesAtLastPoll: WatchedFileStates

    init(
        _ source: ConfigurationSource,
        running: WorkerConfiguration,
        contracts: [ContractRule?],
        log: SharedLimitedLog,
        condition: SharedWorkerCondition,
        applyToLanes: @escaping @Sendable (WorkerConfiguration, [ContractRule?]) -> Void
    ) {
        var checkingSource = source
        let otherCheck = source.loader.additionalCheck
        // Check the memory too: a running worker does not divide its memory again, but with too little memory its next
        // start would fail.
        checkingSource.loader.additionalCheck = { configuration, requiresFiles in
            (otherCheck?(configuration, requiresFiles) ?? []) + StartupCheck.findMemoryFaults(of: configuration)
        }
        self.source = checkingSource
        runningConfiguration = running
        self.contracts = contracts
        self.log = log
        self.condition = condition
        self.applyToLanes = applyToLanes
        shapesPaths = running.apps.compactMap(\.shapes.file)
        fileStatesAtLastRead = WatchedFileStates(configuration: source.path, shapes: shapesPaths)
        fileStatesAtLastPoll = fileStatesAtLastRead
    }

    /// Watches the files until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            try? await Task.sleep(for: Self.pollInterval)
            poll()
        }
    }

    /// Reads the configuration again if its file or a file of shapes was changed or removed since the last reading, and
    /// no file has changed since the previous poll. Also reads it again if a rejected configuration is due for a retry.
    func poll() {
        let states = WatchedFileStates(configuration: source.path, shapes: shapesPaths)
        defer { fileStatesAtLastPoll = states }
        guard states == fileStatesAtLastPoll else { return }
        guard states == fileStatesAtLastRead else { return reload() }
        rejection?.laterPollCount += 1
        if let rejection, rejection.laterPollCount >= Self.pollsPerRetry { readAndApply() }
    }

    func reload() {
        rejection = nil
        readAndApply()
    }

    /// Notes that the configuration is rejected. Logs the errors, unless a retry (`poll`) has found the same ones.
    private func reject(_ errors: String) {
        if errors != rejection?.errors { log(.configurationRejected, ["errors": "\(errors)"]) }
        rejection = (errors, 0)
        condition.change { $0.isConfigurationRejected = true }
    }

    private func readAndApply() {
        fileStatesAtLastRead = WatchedFileStates(configuration: source.path, shapes: shapesPaths)
        let newConfiguration: WorkerConfiguration
        do {
            newConfiguration = try source.loader.load(path: source.path)
        } catch {
            return reject(error.faults.map(\.description).joined(separator: "; "))
        }
        shapesPaths = newConfiguration.apps.compactMap(\.shapes.file)
        fileStatesAtLastRead.readShapes(shapesPaths)
        // The loader does not read the apps' files of shapes, so a fault in one of these files shows only here.
        var newContracts = contracts
        do throws(ShapesFileError) {
            for app in newConfiguration.apps {
                let contract = try app.readContractRule()
                // The worker keeps its apps and bundle ids until a restart. If the file no longer names an app, or
                // gives the app another bundle id, the app keeps its contract too.
                let index = runningConfiguration.apps.firstIndex { $0.name == app.name && $0.bundleId == app.bundleId }
                if let index { newContracts[index] = contract }
            }
        } catch {
            return reject("\(error)")
        }
        let change = ConfigurationChange(from: runningConfiguration, to: newConfiguration)
        let changedNames = change.appliedKeys + findChangedShapes(newContracts, appliedKeys: change.appliedKeys)
        (contracts, rejection) = (newContracts, nil)
        condition.change { $0.isConfigurationRejected = false }
        runningConfiguration = change.configuration
        source.logThreshold.level = runningConfiguration.log.level
        // Apply the configuration even if no key has changed: a file of shapes may have changed.
        if !change.appliedKeys.isEmpty || runningConfiguration.apps.contains(where: { $0.shapes.file != nil }) {
            applyToLanes(runningConfiguration, contracts)
        }
        if !change.keysNeedingRestart.isEmpty {
            log(.configurationNeedsRestart, ["keys": "\(change.keysNeedingRestart.joined(separator: ", "))"])
        }
        log(
            .configurationReloaded,
            ["changed": "\(changedNames.isEmpty ? "nothing" : changedNames.joined(separator: ", "))"]
        )
    }

    /// Returns `apps.<name>.shapes` for each app whose file of shapes has new content, unless `appliedKeys` has a key
    /// of this section.
    private func findChangedShapes(_ newContracts: [ContractRule?], appliedKeys: [String]) -> [String] {
        runningConfiguration.apps.indices.filter { contracts[$0] != newContracts[$0] }
            .map { "apps.\(runningConfiguration.apps[$0].name).shapes" }
            .filter { section in !appliedKeys.contains { $0.hasPrefix("\(section).") } }
    }
}

/// The states of the configuration file and of the files of shapes; nil for a file that is missing.
private struct WatchedFileStates: Equatable {
    /// Nil if the configuration file is missing, or if the whole configuration comes from environment variables.
    let configuration: FileState?
    private var shapes: [FileState?] = []

    init(configuration path: String?, shapes paths: [String]) {
        configuration = path.flatMap(FileState.init)
        readShapes(paths)
    }

    mutating func readShapes(_ paths: [String]) { shapes = paths.map(FileState.init) }
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
