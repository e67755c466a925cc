import APNs
import CausewayConfiguration
import Logging
import Observability

/// Logs a warning for each file that has a secret and that other users of the machine can read.
extension WorkerSetup {
    static func warnOfKeysReadableByOthers(
        _ keys: [ConfiguredSigningKey],
        tokenSources: [ConfiguredSigningKey: ProviderTokenSource],
        _ log: SharedLimitedLog
    ) {
        for key in keys where tokenSources[key]?.signingKey.isReadableByOthers == true {
            log(.keyReadableByOthers, ["file": "\(key.file)"])
        }
    }

    func warnOfSecretsReadableByOthers(_ configuration: WorkerConfiguration) {
        let redis = configuration.redis
        var files: [(key: String, path: String?)] = [
            ("redis.passwordFile", redis.passwordFile), ("redis.sentinelPasswordFile", redis.sentinelPasswordFile),
            ("redis.keyFile", redis.keyFile), ("apns.sharedTokenKeyFile", configuration.apns.sharedTokenKeyFile),
            ("tracing.headersFile", configuration.tracing.headersFile),
        ]
        files += configuration.kafka.propertyFiles.map { ("kafka.propertyFiles.\($0.name)", $0.path) }
        for case (let key, let path?) in files where SecretFile.isReadableByOthers(path) {
            log(.keyReadableByOthers, ["file": "\(path)", "key": "\(key)"])
        }
    }
}
