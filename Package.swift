// swift-tools-version: 6.2
import PackageDescription

/// Every target of ours: Swift 6 language mode, and a warning stops the build.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .treatAllWarnings(as: .error),
    .unsafeFlags(["-cross-module-optimization"], .when(configuration: .release)),
]

let package = Package(
    name: "causeway",
    products: [
        // The benchmarks, a package of their own, measure these two.
        .library(name: "LiveActivity", targets: ["LiveActivity"]),
    ],
    targets: [
        .systemLibrary(name: "CRdkafka", pkgConfig: "rdkafka", providers: [.apt(["librdkafka-dev"])]),
        .systemLibrary(name: "CNghttp2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
        .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),

        .target(name: "LiveActivity", swiftSettings: settings),
        .target(name: "Reactor", dependencies: ["COpenSSL"], swiftSettings: settings),
        .target(name: "Kafka", dependencies: ["CRdkafka", "Reactor"], swiftSettings: settings),
        .target(name: "APNs", dependencies: ["CNghttp2", "COpenSSL", "Reactor"], swiftSettings: settings),
        .testTarget(
            name: "LiveActivityTests", dependencies: ["LiveActivity"], exclude: ["Corpus"], swiftSettings: settings),
        .testTarget(name: "ReactorTests", dependencies: ["Reactor", "COpenSSL"], swiftSettings: settings),
        .testTarget(name: "KafkaTests", dependencies: ["Kafka", "CRdkafka"], swiftSettings: settings),
        .testTarget(
            name: "APNsTests", dependencies: ["APNs", "Reactor", "CNghttp2", "COpenSSL"], swiftSettings: settings),
    ]
)
